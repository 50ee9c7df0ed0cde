"""A model with a method on the device, kept from run to run: only weights and random streams are set anew."""

import copy
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import toughen
from toughen import tasks
from toughen.cuda_graphs import compile_layers, uncompile_layers
from toughen.search.base import LearnedAdversary

from .packed import Material
from .planning import OWN_HEAD, SECOND_ORDER
from .protocol import make
from .texts import tokenizer_of


class Rig:
    """One task, head, method and settings. CUDA graphs of its steps serve every seed and number of epochs."""

    def __init__(self, stock: "Stock", task: str, head: str, method: str, settings: str, *, pack: bool = False) -> None:
        material, self.pack = stock.material, pack
        self.cuda = material.device.type == "cuda"
        if self.cuda:
            torch.cuda.empty_cache()
            self._before = torch.cuda.memory_reserved()
            torch.cuda.reset_peak_memory_stats()
        self.material, self.stock, self.task, self.head = material, stock, task, head
        self.model = stock.model(task, head).to(material.device)
        self._pristine = {name: value.clone() for name, value in self.model.state_dict().items()}
        self._files = tempfile.TemporaryDirectory()  # of synonyms; it goes with the rig
        self.method = make(method, self._with_files(settings))
        texts = material.facts.get("texts")
        self._tokenizer = material.tokenizer if texts is None else tokenizer_of(texts)
        parts: tuple[Any, ...] = getattr(self.method, "methods", (self.method,))
        self._layers = self._compiled() if compiles(material.device) else {}
        self.learns = any(isinstance(part.search, LearnedAdversary) for part in parts)
        self.attached: Any = None
        self.step: Any = None
        self.optimizer: Any = None
        self._memory: float | None = None

    def begin(self, seed: int, total_steps: int, weight_decay: float, clip: float) -> None:
        """The pretrained weights, the seed's head, and nothing left of the run before."""
        with torch.no_grad():
            fresh = {**self._pristine, **self.stock.state(self.task, self.head, seed)}
            for name, value in self.model.state_dict().items():
                value.copy_(fresh[name])
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        if self.attached is None or self.learns:  # a learnt adversary begins from the seed, too
            self.drop()
            self.attached = self.method.attach(self.model, self._tokenizer, seed=seed, total_steps=total_steps)
            self.optimizer = optimizer_of(self.model, weight_decay, self.cuda)
            self.step = self.attached.capture(self.model, pack=self.pack, optimizer=self.optimizer, max_norm=clip)
        else:
            attached = self.attached
            attached.attach()
            attached.updates, attached.total_steps = 0, total_steps
            attached.noise.seed = seed
            for generator in attached.noise.generators.values():
                generator.manual_seed(seed)
            for states in attached.states:
                if states.ema is not None:
                    states.ema.update(0.0)  # the teacher is the pretrained model again, in the same memory
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        self.model.train()
        for layer, compiled in self._layers.items():
            layer._compiled_call_impl = compiled

    def _with_files(self, settings: str) -> str:
        """Write the synonyms that settings name by their source, and name the file in its place."""
        sources: dict[str, Any] = (self.material.facts.get("texts") or {}).get("synonyms", {})

        def resolved(values: Any) -> Any:
            if not isinstance(values, dict):
                return values
            found = {name: resolved(value) for name, value in values.items()}
            if "synonyms" in found:
                if found["synonyms"] not in sources:
                    raise SystemExit(
                        f"{self.task}: the file was prepared without synonyms {found['synonyms']!r}; prepare it with "
                        f"--synonyms {found['synonyms']}=SOURCE."
                    )
                file = Path(self._files.name) / f"{found['synonyms']}.json"
                file.write_text(json.dumps(sources[found["synonyms"]]), "utf-8")
                found["synonyms"] = str(file)
            return found

        return json.dumps(resolved(json.loads(settings)))

    def _compiled(self) -> dict[Any, Any]:
        """Layers with their compiled calls, which are for training alone: tests have shapes of many kinds."""
        compile_layers(self.model)
        return {layer: layer._compiled_call_impl for layer in self.model.modules() if layer._compiled_call_impl}

    def update(self, batch: Mapping[str, Tensor], rate: float) -> None:
        """One update on a batch, at a learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.step(batch)

    def end(self) -> nn.Module:
        """The trained model, without hooks, for its tests."""
        self.attached.detach()
        uncompile_layers(self.model)
        return self.model.eval()

    @property
    def memory_gib(self) -> float | None:
        """The most that this rig took beyond what was there before, after its first training."""
        if self._memory is None and self.cuda:
            self._memory = (torch.cuda.max_memory_reserved() - self._before) / 2**30
        return self._memory

    def drop(self) -> None:
        """Graphs and hooks go."""
        if self.attached is not None:
            self.step.close()
            self.attached.detach()
            self.attached = self.step = None


def compiles(device: torch.device) -> bool:
    return device.type == "cuda"


def optimizer_of(model: nn.Module, weight_decay: float, cuda: bool) -> torch.optim.AdamW:
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, fused=cuda)


def built(material: Material, task: str, head: str, seed: int, *, skeleton: bool = False) -> nn.Module:
    """The pretrained backbone with a new head for the task, on the CPU; the head's weights come from the seed.

    A `skeleton` has a random backbone that knows a few tokens: quickly made, and its head depends on nothing else.
    """
    from transformers import AutoConfig, AutoModel

    known = dict(material.facts["config"])
    settings = tasks.model_kwargs(task)
    kind = known.pop("model_type")
    if skeleton:
        known |= {"vocab_size": 8, "pad_token_id": 0}
    torch.manual_seed(seed)
    if head in (SECOND_ORDER, OWN_HEAD):
        backbone = AutoModel.from_config(AutoConfig.for_model(kind, **known))
        asked = {name: settings[name] for name in ("num_labels", "problem_type") if name in settings}
        chosen = "multiple-choice" if tasks.task(task).head == "choices" else "sequence-classification"
        own = {"preset": task} if head == OWN_HEAD else {}
        model = toughen.second_order(backbone, task=chosen, **asked, **own)
    else:
        model = tasks.auto_class(task).from_config(AutoConfig.for_model(kind, **{**known, **settings}))
    if not skeleton:
        missing = model.base_model.load_state_dict(dict(material.weights), strict=False).missing_keys
        if missing:
            raise RuntimeError(f"the file has no weights for {', '.join(missing)}; prepare it from another folder.")
    return model.train()


class Stock:
    """Models and new heads by task, kind and seed, made once: heads are the same for every method with this seed."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._models: dict[tuple[str, str], nn.Module] = {}
        self._made: dict[tuple[str, str, int], dict[str, Tensor]] = {}

    def model(self, task: str, head: str) -> nn.Module:
        """One's own copy of the pretrained model with some head."""
        if (task, head) not in self._models:
            self._models[task, head] = built(self.material, task, head, seed=0)
        return copy.deepcopy(self._models[task, head])

    def state(self, task: str, head: str, seed: int) -> dict[str, Tensor]:
        """The weights outside the backbone."""
        if (task, head, seed) not in self._made:
            model = built(self.material, task, head, seed, skeleton=True)
            inside = f"{model.base_model_prefix}."
            self._made[task, head, seed] = {
                name: value.clone() for name, value in model.state_dict().items() if not name.startswith(inside)
            }
        return self._made[task, head, seed]
