"""The truth table of two processes: logged loss, evaluation loss and gradient are means over all examples."""

import pytest
import torch
from torch import Tensor

from ..tiny import small_bert as bert
from . import processes
from .driving import collated, made, texts

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.filterwarnings("ignore::toughen.errors.RobustnessWarning"),
]


def truth(name: str, steps: int) -> tuple[float, float, dict[str, Tensor]]:
    model = bert(0.0).train()
    batch = collated(texts(4 * steps * processes.WORLD))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    with made(name).attach(model, total_steps=1) as attached:
        loss = attached.backward(model, batch, step=step)
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    step()
    with torch.no_grad():
        return float(loss), float(model.eval()(**batch).loss), gradients


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Tensor]]:
    return processes.run_all(tmp_path_factory.mktemp("trainer"))


def test_captured_steps_exchange_once_an_update_and_train_as_eager_ones(ranks: list[dict[str, Tensor]]) -> None:
    for name, steps in processes.FAST_CASES:
        fast, eager = (f"{name}/{steps}/{kind}/" for kind in (True, False))
        assert ranks[0][f"{fast}counts"].tolist() == [5 * steps, 6]  # captured micro-batches of 6 updates
        assert ranks[0][f"{eager}counts"][0] == 0
        for key in (key for key in ranks[0] if key.startswith(eager) and not key.endswith("counts")):
            ours = ranks[0][key.replace(eager, fast)]
            assert torch.equal(ours, ranks[1][key.replace(eager, fast)]), key
            torch.testing.assert_close(ours, ranks[0][key], rtol=1e-4, atol=1e-6, msg=key)


def test_a_captured_loop_trains_as_an_eager_one(ranks: list[dict[str, Tensor]]) -> None:
    processes.check_loop(ranks)


def test_loss_and_gradient_are_the_true_means(ranks: list[dict[str, Tensor]]) -> None:
    for name, steps in processes.CASES:
        loss, after, gradients = truth(name, steps)
        for found in ranks:
            here = f"{name}/{steps}"
            assert float(found[f"{here}/loss"]) == pytest.approx(loss, abs=1e-5), here
            assert float(found[f"{here}/eval"]) == pytest.approx(after, abs=1e-5), here
            for key, expected in gradients.items():
                torch.testing.assert_close(
                    found[f"{here}/gradient/{key}"], expected, rtol=1e-4, atol=1e-6, msg=f"{here} {key}"
                )
