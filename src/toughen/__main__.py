"""`python -m toughen`: the command line where the `toughen` script is not on the path."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
