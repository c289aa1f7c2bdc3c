"""Parameters, gradients, optimizer state and logits by name (spec/memory.md, R-MEM-3): bytes by hand, the
same for the rules, the kernel and the solver.
"""

from __future__ import annotations

import pytest

from interlock.algebra.standard import elaborate_text
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.engine import smt
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.ir import Size
from interlock.program.transfers import insert
from interlock.rules.usage import STATIC, Usage
from interlock.text.finding import InputError

OCTOPIPE = "gradient 4B per parameter  master 4B per parameter  optimizer 8B per parameter"
X = 1_000_003


def one(layer: str, memory: str, more: str = "", microbatches: int = 1) -> str:
    order = " ".join([*(f"0F{m}" for m in range(microbatches)), *(f"0B{m}" for m in range(microbatches))])
    return (
        f"schedule s {{ ranks 1 microbatches {microbatches} model {{ layer a {{ {layer} }} }} memory {{ "
        f"{memory} }} {more} order transfers inserted {{ rank 0: {order} }} }}"
    )


def static(layer: str, memory: str, more: str = "") -> tuple[int, ...]:
    return Usage(Facts(insert(elaborate_text(one(layer, memory, more)).program))).static_parts[0]


@pytest.mark.parametrize(
    "layer, memory, parts",
    [
        (f"parameters {X}", OCTOPIPE, (2 * X, 4 * X, 12 * X)),  # OctoPipe: 2X + 4X + 4X + 8X = 18X
        (f"weights {2 * X}B", OCTOPIPE, (2 * X, 4 * X, 12 * X)),  # bytes in place of their number
        (
            f"weights {2 * X}B",
            "gradient 2 per weight byte  master 2 per weight byte  optimizer 4 per weight byte",
            (2 * X, 4 * X, 12 * X),
        ),
        (f"parameters {X}", "weights 1B per parameter  " + OCTOPIPE, (X, 4 * X, 12 * X)),  # weights of 8 bits
        (f"parameters {X} frozen", OCTOPIPE, (2 * X, 0, 0)),
        (
            f"parameters {X}",
            OCTOPIPE.replace("per parameter", "per parameter sharded 8"),
            (2 * X, -(-4 * X // 8), -(-12 * X // 8)),
        ),
        (
            f"parameters {X}",
            "optimizer 8B per parameter sharded 3",
            (2 * X, 2 * X, -(-8 * X // 3)),
        ),  # as before: a gradient byte for each weight byte
        (f"parameters {X}", "gradient 0B per parameter  master 4B per parameter", (2 * X, 0, 4 * X)),
        (f"weights {X}B", "optimizer 8 per weight byte", (X, X, 8 * X)),  # as it always was
        (f"weights {X}B", "", (X, X, 0)),
    ],
)
def test_static_bytes(layer, memory, parts):
    assert static(layer, memory) == parts and len(parts) == len(STATIC)


@pytest.mark.parametrize(
    "tokens, shards, logits",
    [
        ("4096", "", 2 * 2**30),
        ("4096", "sharded 2", 2**30),
        ("4096", "sharded 3", -(-(2**31) // 3)),
        ("100 per image", "", Size(0, 100 * 131_072 * 4)),
    ],
)
def test_logits(tokens, shards, logits):
    """4,096 tokens of a vocabulary of 131,072 in fp32 are 2 GiB, on top of the activation."""
    layer = f"activation 1MiB  vocabulary 131072  tokens {tokens}"
    e = elaborate_text(one(layer, f"logits 4B per vocabulary entry {shards}"))
    extra = logits if isinstance(logits, Size) else Size(logits)
    assert e.program.layers[0].activation == Size(2**20 + extra.fixed, extra.per_image)
    assert elaborate_text(one(layer, "")).program.layers[0].activation == Size(2**20)


HEAD = f"parameters {X}  activation 1000B  vocabulary 1000  tokens 10"
TERMS = (
    OCTOPIPE.replace("optimizer 8B per parameter", "optimizer 8B per parameter sharded 4")
    + "  logits 4B per vocabulary entry sharded 2"
)
PEAK = 2 * X + 4 * X + (4 * X + 2 * X) + 2 * (1000 + 10 * 1000 * 4 // 2)  # two microbatches in flight


@pytest.mark.parametrize("engine", ["graph", "both"])
@pytest.mark.parametrize("capacity, verdict", [(PEAK, "valid"), (PEAK - 1, "invalid")])
def test_every_judge_counts_them(engine, capacity, verdict):
    """Rules, kernel, executor and z3 agree on a peak computed by hand, to the byte."""
    text = one(HEAD, f"capacity {capacity}B  {TERMS}", microbatches=2)
    (answer,) = check_file("s.sched", text.encode(), Question(engine=engine)).checked[0].answers
    assert answer.verdict.value == verdict and [f.code for f in answer.errors] == ["IL501"] * (
        verdict == "invalid"
    )
    if verdict == "valid":
        assert {"claim": "peak", "peaks": [PEAK]} in certificates(answer)[0]["claims"]
    else:
        assert answer.errors[0].data["peak"] == PEAK and answer.replay is not None


def test_the_solver_with_open_sizes():
    """The largest weights that fit, with a fraction for each weight byte: floor by hand."""
    program = insert(
        elaborate_text(one("weights 10B", "capacity 1000B  optimizer 8B per parameter sharded 3")).program
    )
    found = smt.find_largest_size(program, smt.Parameter("w", "weights", (0,)))

    def fits(w):
        return w + w + -(-8 * w // 6) <= 1000

    assert fits(found.value) and not fits(found.value + 1)


def test_a_layer_beyond_what_is_counted():
    with pytest.raises(InputError) as refused:
        elaborate_text(
            one("vocabulary 9007199254740992  tokens 9007199254740992", "logits 4B per vocabulary entry")
        )
    assert refused.value.findings[0].code == "IL104"


def test_logits_of_nothing():
    with pytest.raises(InputError) as refused:
        elaborate_text(one("weights 1MB", "logits 4B per vocabulary entry"))
    assert refused.value.findings[0].code == "IL101" and "`vocabulary`" in refused.value.findings[0].message
    with pytest.raises(InputError) as refused:
        elaborate_text(
            "schedule s { ranks 1 microbatches 1 memory { logits 4B per vocabulary entry } order transfers "
            "inserted { rank 0: 0F0 0B0 } }"
        )
    assert "without a model" in refused.value.findings[0].message
