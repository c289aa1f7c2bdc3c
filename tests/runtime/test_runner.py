"""One rank in this process: what is kept and let go, accumulation, the optimizer, and what a Runner refuses."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from interlock.interchange.torch_csv import CsvOptions
from interlock.runtime import RunError, Runner

from .support import lowered

pytestmark = pytest.mark.torch

ORDER = (
    "schedule s {{ ranks 1 microbatches 3 place {{ rank 0: 0, 1 }} {more} order transfers inserted {{ "
    "rank 0: {order} }} }}"
)
ZB = "0F0 1F0 0F1 1F1 1I0 0I0 1I1 1W0 0I1 0W1 0F2 1F2 0W0 1W1 1I2 1W2 0I2 0W2"
PLAIN = "0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1 0F2 1F2 1B2 0B2"


@pytest.fixture(scope="module", autouse=True)
def world(tmp_path_factory):
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path_factory.mktemp('store') / 'store'}", rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


@pytest.fixture
def make():
    runners = []

    def make(order: str, more: str = "", stages=None, **options) -> Runner:
        plan = lowered(ORDER.format(order=order, more=more)).plan
        torch.manual_seed(0)
        runners.append(
            Runner(
                plan,
                stages or {0: nn.Linear(3, 4).double(), 1: nn.Linear(4, 2).double()},
                options.pop("loss_fn", loss_fn),
                timeout=10,
                **options,
            )
        )
        return runners[-1]

    yield make
    for r in runners:
        r.close()


def loss_fn(out, target):
    return ((out - target) ** 2).sum()


def batch():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, 3, generator=generator).double() for _ in range(3)], [
        torch.randn(2, 2, generator=generator).double() for _ in range(3)
    ]


def gradients(runner) -> list[torch.Tensor]:
    return [p.grad for s in sorted(runner.stages) for p in runner.stages[s].module.parameters()]


def expected(runner, steps: int = 1) -> list[torch.Tensor]:
    chain = [runner.stages[s].module for s in sorted(runner.stages)]
    parameters = [p for m in chain for p in m.parameters()]
    total = sum(loss_fn(chain[1](chain[0](x)), y) for x, y in zip(*batch())) * steps
    return list(torch.autograd.grad(total, parameters))


@pytest.mark.parametrize("order", [ZB, PLAIN])
def test_what_is_kept_is_what_the_plan_says(make, order):
    runner = make(order)
    execute, kept = runner._execute, []

    def recorded(i):
        after = execute(i)
        kept.append(sum(len(s.stashes) for s in runner.stages.values()))
        return after

    runner._execute = recorded
    runner.step(*batch())
    count, asked = 0, []
    for a in runner.actions:
        count += a["do"] == "F"
        count -= a.get("drop", False)
        asked.append(count)
    assert kept == asked and kept[-1] == 0 and max(kept) == (4 if order == ZB else 2)
    assert not runner.payloads and not runner.receives
    assert all(
        torch.allclose(a, b, rtol=1e-12, atol=0)
        for a, b in zip(gradients(runner), expected(runner), strict=True)
    )


def test_steps_accumulate(make):
    runner = make(ZB)
    losses = [runner.step(*batch()) for _ in range(3)]
    assert all(torch.equal(losses[0], l) for l in losses)
    assert all(
        torch.allclose(a, b, rtol=1e-12, atol=0)
        for a, b in zip(gradients(runner), expected(runner, 3), strict=True)
    )


def test_the_plan_s_step_and_zero_are_the_optimizer_s_if_there_is_one(make):
    stages = {0: nn.Linear(3, 4).double(), 1: nn.Linear(4, 2).double()}
    optimizer = torch.optim.SGD([p for s in stages.values() for p in s.parameters()], lr=0.1)
    runner = make(f"ZERO {PLAIN} STEP", stages=stages, optimizer=optimizer)
    before = [p.detach().clone() for s in stages.values() for p in s.parameters()]
    asked = [p - 0.1 * g for p, g in zip(before, expected(runner))]
    runner.step(*batch())
    now = [p.detach() for s in stages.values() for p in s.parameters()]
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-15) for a, b in zip(now, asked, strict=True))
    asked = [p - 0.1 * g for p, g in zip(now, expected(runner))]
    runner.step(*batch())
    assert all(
        torch.allclose(p.detach(), b, rtol=1e-12, atol=1e-15)
        for p, b in zip((p for s in stages.values() for p in s.parameters()), asked, strict=True)
    )


def test_a_forward_without_backward_builds_no_graph(make):
    stages = {0: nn.Linear(3, 4).double().requires_grad_(False), 1: nn.Linear(4, 2).double()}
    seen = []
    stages[0].register_forward_hook(lambda m, i, out: seen.append(torch.is_grad_enabled()))
    runner = make("0F0 1F0 1B0 0F1 1F1 1B1 0F2 1F2 1B2", "freeze stage 0", stages)
    runner.step(*batch())
    assert (
        seen == [False] * 3
        and all(p.grad is None for p in stages[0].parameters())
        and all(p.grad is not None for p in stages[1].parameters())
    )


@pytest.mark.parametrize(
    "text", ["0F0,1F0,1B0,0I0,0W0,0F1,1F1,1I1,1W1,0B1", "0F0,1F0,0F1,1F1,1B0,1B1,0B0,0B1"]
)
def test_placeholders_of_a_csv_do_nothing(text):
    plan = lowered(text + "\n", name="a.csv", csv=CsvOptions(frozen=frozenset({0}))).plan
    stages = {0: nn.Linear(3, 4).double().requires_grad_(False), 1: nn.Linear(4, 2).double()}
    runner = Runner(plan, stages, loss_fn, timeout=10)
    inputs, targets = (x[:2] for x in batch())
    runner.step(inputs, targets)
    runner.close()
    total = sum(loss_fn(stages[1](stages[0](x)), y) for x, y in zip(inputs, targets))
    assert all(
        torch.allclose(p.grad, g, rtol=1e-12, atol=0)
        for p, g in zip(
            stages[1].parameters(), torch.autograd.grad(total, list(stages[1].parameters())), strict=True
        )
    )
    assert all(p.grad is None for p in stages[0].parameters())


def test_the_split_backward_after_a_frozen_prefix_keeps_its_weight_gradients(make):
    """PyTorch's own split loses them without a word (IL802)."""
    stages = {
        0: nn.Linear(3, 4).double().requires_grad_(False),
        1: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double(),
    }
    runner = make("0F0 1F0 1I0 0F1 1F1 1I1 1W0 1W1 0F2 1F2 1I2 1W2", "freeze stage 0", stages)
    runner.step(*batch())
    total = sum(loss_fn(stages[1](stages[0](x)), y) for x, y in zip(*batch()))
    asked = torch.autograd.grad(total, list(stages[1].parameters()))
    assert all(
        torch.allclose(p.grad, g, rtol=1e-12, atol=0)
        for p, g in zip(stages[1].parameters(), asked, strict=True)
    )


def test_a_loss_of_its_own_operation(make):
    runner = make("0F0 1F0 1LOSS0 1B0 0B0 0F1 1F1 1LOSS1 1B1 0B1 0F2 1F2 1LOSS2 1B2 0B2")
    runner.step(*batch())
    assert all(
        torch.allclose(a, b, rtol=1e-12, atol=0)
        for a, b in zip(gradients(runner), expected(runner), strict=True)
    )


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda stages: stages.pop(1), "was given the stages [0], and the plan places [0, 1] there"),
        (
            lambda stages: stages[0].requires_grad_(False),
            "stage 0: the module has none, and the plan trains it",
        ),
    ],
)
def test_stages_that_are_not_the_plan_s(make, change, said):
    stages = {0: nn.Linear(3, 4).double(), 1: nn.Linear(4, 2).double()}
    change(stages)
    with pytest.raises(RunError) as error:
        make(PLAIN, stages=stages)
    assert error.value.code == "IL849" and said in str(error.value)


def test_a_module_that_cuts_the_gradient_off(make):
    class Cuts(nn.Linear):
        def forward(self, x):
            return super().forward(x).detach()

    runner = make(PLAIN, stages={0: Cuts(3, 4).double(), 1: nn.Linear(4, 2).double()})
    with pytest.raises(RunError) as error:
        runner.step(*batch())
    assert (
        error.value.code == "IL849"
        and "0F0 (s.plan:11)" in str(error.value)
        and "outputs without a gradient" in str(error.value)
    )
    with pytest.raises(RunError):
        runner.step(*batch())


def test_what_else_fails_at_the_start_is_told_too(make):
    class Odd(nn.Linear):
        def parameters(self):
            raise LookupError("no parameters here")

    with pytest.raises(RunError, match="rank 0 failed: LookupError: no parameters here") as error:
        make(PLAIN, stages={0: Odd(3, 4), 1: nn.Linear(4, 2)})
    assert error.value.code == "IL848" and isinstance(error.value.__cause__, LookupError)


def test_inputs_that_are_too_few(make):
    with pytest.raises(ValueError, match="the plan has 3 microbatches; inputs are 2"):
        make(PLAIN).step(batch()[0][:2])


def test_no_loss_function(make):
    with pytest.raises(RunError, match="no loss_fn"):
        make(PLAIN, loss_fn=None).step(*batch())
