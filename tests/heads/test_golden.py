"""The authors' own numbers, through the public names of `toughen.heads`."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from toughen.heads import MultiHeadPooling, SecondOrderHead, second_order, svpn, svpn_exact
from toughen.heads.head import rename_original

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = {path.stem: path for path in sorted((GOLDEN / "mgcrp").glob("*.json"))}


def load(name):
    info = json.loads(CASES[name].read_text())
    return info, info["hyper_parameters"], load_file(CASES[name].with_suffix(".safetensors"))


def under(tensors, prefix):
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def close(ours, theirs):
    assert (ours - theirs).abs().max() / theirs.abs().max().clamp_min(1) < 1e-9


def leaf(x):
    return x.clone().requires_grad_()


def test_every_case_is_used():
    kinds = ("svpn_", "text_q", "text_padding", "vision_pool", "vision_classifier")
    assert CASES
    assert all(name.startswith(kinds) for name in CASES)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("svpn_")])
def test_svpn(name):
    _, hyper, tensors = load(name)
    x = leaf(tensors["input/x"])
    start = leaf(tensors["param/weight"]) if "param/weight" in tensors else None
    side = "rows" if hyper["variant"] == "text" else "columns"
    settings = {"alpha": hyper["alpha"], "singular_values": hyper["svNum"]}
    out = svpn(x, start, iterations=hyper["iterNum"], side=side, **settings).flatten(1)
    (out * tensors["input/coef"]).sum().backward()
    close(out, tensors["expect/out"])
    close(x.grad, tensors["grad_input/x"])
    if start is not None:
        close(start.grad, tensors["grad/weight"])
    exact = tensors["expect/exact_svd_out"]
    close(svpn_exact(x, **settings).flatten(1), exact)
    close(svpn(x, start, iterations=3000, side=side, **settings).flatten(1), exact)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("text_q", "vision_classifier"))])
def test_head(name):
    info, hyper, tensors = load(name)
    weights = under(tensors, "param/")
    fusion = {"fusion": hyper["fusion"]} if "fusion" in hyper else {}
    head = SecondOrderHead.from_original(
        weights,
        alpha=hyper["alpha"],
        iterations=hyper["iterNum"],
        singular_values=hyper["svNum"],
        dropout=0.0,
        **fusion,
    ).train(hyper.get("training", True))
    x = leaf(tensors["input/x"])
    logits = head(x)
    loss = F.cross_entropy(logits, tensors["input/labels"])
    loss.backward()
    close(logits, tensors["expect/logits"])
    close(loss, torch.tensor(info["expected_scalars"]["loss"], dtype=torch.float64))
    close(x.grad, tensors["grad_input/x"])
    nothing = {key: torch.zeros_like(value) for key, value in weights.items()}
    gradients = rename_original({**nothing, **under(tensors, "grad/")})
    for key, value in head.named_parameters():
        close(value.grad, gradients[key])
    if after := under(tensors, "expect/after/"):
        expected = rename_original({**weights, **after})
        for key, value in head.named_buffers():
            close(value.double(), expected[key].double())


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("text_q")])
def test_text_covariance(name):
    _, hyper, tensors = load(name)
    head = SecondOrderHead.from_original(
        under(tensors, "param/"), iterations=hyper["iterNum"], singular_values=hyper["svNum"]
    ).train(hyper["training"])
    matrix = head.pool.covariance(tensors["input/x"][:, 1:])
    close(matrix.squeeze(1), tensors["expect/cross_covariance"])
    close(head.pool.normalize(matrix).flatten(1), tensors["expect/svpn"])


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("vision_pool")])
def test_pooling(name):
    _, hyper, tensors = load(name)
    pool = MultiHeadPooling(
        hyper["dim"],
        preset="original-vision",
        heads=hyper["num_heads"],
        wr_dim=hyper["wr_dim"],
        alpha=hyper["alpha"],
        iterations=hyper["iterNum"],
        singular_values=hyper["svNum"],
    ).double()
    pool.load_state_dict(
        {"covariance.projection.weight": tensors["param/wr.weight"], "normalize.start": tensors["param/norm.weight"]}
    )
    x = leaf(tensors["input/x"])
    out = pool(x)
    (out * tensors["input/coef"]).sum().backward()
    close(pool.covariance(x).flatten(0, 1), tensors["expect/cross_covariance"])
    close(out, tensors["expect/out"])
    close(x.grad, tensors["grad_input/x"])
    close(pool.covariance.projection.weight.grad, tensors["grad/wr.weight"])
    close(pool.normalize.start.grad, tensors["grad/norm.weight"])


def padded_cases():
    if "text_padding_sensitivity" not in CASES:
        return
    _, hyper, _ = load("text_padding_sensitivity")
    yield from hyper["extras"]


@pytest.mark.parametrize("extra", padded_cases())
def test_padding_moves_the_original_and_not_the_default(extra):
    info, hyper, tensors = load("text_padding_sensitivity")
    model = golden_bert(info)
    ids, mask = (F.pad(tensors[f"input/{name}"], (0, extra)) for name in ("input_ids", "attention_mask"))
    weights = under(tensors, "param/")
    sizes = {"num_labels": 3, "q": hyper["q"], "k": hyper["k"], "dropout": 0.0}
    original = second_order(model, preset="original-text", **sizes)
    original.classifier.load_state_dict(rename_original(weights))
    original.eval()
    close(original(ids, mask).logits, tensors[f"expect/logits_eval_pad{extra}"])
    assert all(p.p == 0 for p in original.backbone.modules() if isinstance(p, torch.nn.Dropout))
    close(original.train()(ids, mask).logits, tensors[f"expect/logits_train_pad{extra}"])

    # The same weights with the mask respected: every row as if it were alone and unpadded.
    original.classifier.load_state_dict(rename_original(weights))
    original.eval()
    original.classifier.settings = SecondOrderHead(4, 2, preset="original-text", masked=True).settings
    close(original(ids, mask).logits, tensors["expect/logits_eval_unpadded_per_row"])


def golden_bert(info):
    import transformers

    spec = info["model"]
    config = transformers.AutoConfig.for_model(**json.loads((GOLDEN / spec["config_file"]).read_text()))
    config._attn_implementation = "eager"
    model = getattr(transformers, spec["class"])(config).double()
    weights = load_file(GOLDEN / spec["weights_file"])
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return model
