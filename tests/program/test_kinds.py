"""The table of kinds, and the lists kept apart from it on purpose: the kernel's and the executor's."""

from __future__ import annotations

import pytest

from interlock.kernel import program as kernel_program
from interlock.program import kinds
from interlock.program.kinds import Kind
from interlock.witness.executor import world


def _names(numbers) -> set[str]:
    """Names of numbers of the kernel, which tells a Replicated stage's REDUCE apart."""
    return {kernel_program.WORDS[k] for k in numbers if k != kernel_program.Kind.REDUCE_REPLICATED}


def test_the_kernel_numbers_the_kinds_alike():
    assert kernel_program.WORDS[:-1] == [kind.name for kind in Kind]
    assert [int(kind) for kind in Kind] == list(range(len(Kind)))


@pytest.mark.parametrize(
    ("kernel", "table"),
    [
        ("COMPUTE", "COMPUTE"),
        ("COMPUTE_LIKE", "COMPUTE_LIKE"),
        ("PIPELINE", "PIPELINE"),
        ("TRANSFERS", "TRANSFER"),
        ("COLLECTIVES", "COLLECTIVE"),
        ("WITHOUT_EVENT", "NO_EVENT"),
        ("WITH_MICROBATCH", "WITH_MICROBATCH"),
        ("WITH_STAGE", "WITH_STAGE"),
        ("WITH_NAME", "WITH_NAME"),
    ],
)
def test_the_kernel_says_the_same_of_them(kernel, table):
    assert _names(getattr(kernel_program.Kind, kernel)) == {kind.name for kind in getattr(kinds, table)}


@pytest.mark.parametrize("name", ["COMPUTE", "PIPELINE", "TRANSFER", "WITH_MICROBATCH", "WITH_STAGE"])
def test_the_executor_says_the_same_of_them(name):
    assert set(getattr(world, name)) == {kind.name for kind in getattr(kinds, name)}


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (Kind.F, "2F7"),
        (Kind.RECV_B, "2RECV_B7@seam"),
        (Kind.SEND, "send(1, a0)@seam"),
        (Kind.WAIT, "wait(a0)"),
        (Kind.REDUCE, "2REDUCE"),
        (Kind.REDUCE_TIE, "reduce(tie: a0)@seam"),
        (Kind.COLL, "coll(seam, a0)"),
        (Kind.STEP, "STEP"),
    ],
)
def test_forms(kind, form):
    assert kind.form.format(stage=2, mb=7, peer=1, name="a0", comm="seam") == form
