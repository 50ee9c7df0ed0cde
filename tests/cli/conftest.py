from ..runs.conftest import finished as finished
from ..runs.conftest import little as little
