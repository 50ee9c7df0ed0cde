"""The original packages' names, for code that must run after one changed import.

    from smart_pytorch import SMARTLoss, kl_loss, sym_kl_loss, js_loss    ->  from toughen.compat import ...
    from DeBERTa.sift import hook_sift_layer, AdversarialLearner          ->  from toughen.compat import ...
    from mt_dnn.loss import stable_kl, SymKlCriterion, ...                ->  from toughen.compat import ...
    from modeling.utils import divergence              (adversarialSA)    ->  from toughen.compat import divergence

Values and gradients are the originals'. What is mended is said at each name.
"""

from .deberta import AdversarialLearner as AdversarialLearner
from .deberta import PerturbationLayer as PerturbationLayer
from .deberta import hook_sift_layer as hook_sift_layer
from .losses import HLCriterion as HLCriterion
from .losses import JSCriterion as JSCriterion
from .losses import KlCriterion as KlCriterion
from .losses import MseCriterion as MseCriterion
from .losses import NsKlCriterion as NsKlCriterion
from .losses import NsSymKlCriterion as NsSymKlCriterion
from .losses import SymKlCriterion as SymKlCriterion
from .losses import divergence as divergence
from .losses import js_loss as js_loss
from .losses import kl_loss as kl_loss
from .losses import stable_kl as stable_kl
from .losses import sym_kl_loss as sym_kl_loss
from .smart_pytorch import SMARTLoss as SMARTLoss
from .smart_pytorch import inf_norm as inf_norm
