"""`memory`, `device`, `link`, `replicas`: what the parser makes of them, what it refuses, and that the
formatter keeps them.
"""

from __future__ import annotations

import pytest

from interlock.language.format import format
from language.support import bare, errors, read, schedule

MACHINE = """
  model { layer head { parameters 7_000  vocabulary 1000  tokens 4 per image } }
  memory { capacity 64GiB  weights 2B per parameter  gradient 1.5 per weight byte  master 4B per parameter sharded 8
           optimizer 8B per parameter sharded 8  logits 4B per vocabulary entry sharded 2 }
  link { latency 20us }
  replicas 8 { latency 5us  bandwidth 100GB/s  blocking }
  device { peak_flops 989TFLOP/s  overhead 5us  speed 0.8 on ranks 0  speed 0.9  overlap 3ms  overlap 4ms on stages 0, 7 }"""


def test_every_clause():
    s = schedule(MACHINE)
    m = s.memory

    def share(x):
        return (x.amount.value, x.amount.scale, x.unit, x.shards and x.shards.value)

    assert share(m.weights) == (2, 1, "parameter", None) and share(m.gradient) == (3, 2, "weight byte", None)
    assert share(m.master) == (4, 1, "parameter", 8) and share(m.optimizer) == (8, 1, "parameter", 8)
    assert share(m.logits) == (4, 1, "vocabulary entry", 2)
    r = s.replicas
    assert (r.number.value, r.latency.value, r.bandwidth.value, r.blocking) == (8, 5_000, 100 * 10**9, True)
    d = s.device
    assert (d.overhead.value, d.hbm_bandwidth) == (5_000, None)
    assert [(x.factor.value, x.factor.scale, [(r.first, r.last) for r in x.ranks]) for x in d.speeds] == [
        (4, 5, [(0, 0)]),
        (9, 10, []),
    ]
    assert [(o.time.value, o.stages and tuple(s.first for s in o.stages)) for o in d.overlaps] == [
        (3_000_000, None),
        (4_000_000, (0, 7)),
    ]
    assert s.model.items[0].get("tokens").value.per_image


def test_the_formatter_keeps_every_clause():
    text = f"schedule s {{\n  ranks 2\n  microbatches 4\n{MACHINE}   # the cluster\n}}\n"
    once = format(text)
    assert format(once) == once and "# the cluster" in once and bare(read(once)) == bare(read(text))


@pytest.mark.parametrize(
    "statement, code, said",
    [
        (
            "memory { gradient 4B per weight byte }",
            "IL102",
            "expected a number without a unit after `gradient`, not `4B`",
        ),
        (
            "memory { gradient 4 per parameter }",
            "IL102",
            "expected a size such as `96MiB` after `gradient`, not `4`",
        ),
        (
            "memory { optimizer 2.5B per parameter }",
            "IL102",
            "`2.5B` for each parameter: expected whole bytes",
        ),
        ("memory { weights 0B per parameter }", "IL102", "a parameter of no bytes"),
        ("memory { master 4B per parameter sharded 0 }", "IL102", "`sharded 0`: expected at least 1"),
        ("memory { logits 4B }", "IL101", "expected `per` after `4B`, not `}`"),
        (
            "memory { master 1 per weight byte  master 2 per weight byte }",
            "IL103",
            "`master` is given twice in `memory`",
        ),
        ("device { speed 0 }", "IL102", "a speed of 0: nothing would ever end"),
        ("device { speed 80% }", "IL102", "expected a number without a unit after `speed`, not `80%`"),
        ("device { speed 1  speed 2 }", "IL103", "`speed` is given twice for all ranks"),
        (
            "device { overlap 1ms on stages 0, 1..2 }",
            "IL101",
            "an overlap is of one stage's forward with one stage's backward",
        ),
        (
            "device { overlap 1ms on stages 0, 1  overlap 2ms on stages 0, 1 }",
            "IL103",
            "`overlap` is given twice for the same stages",
        ),
        ("device { overhead 5 }", "IL102", "expected a duration such as `1.6ms` after `overhead`, not `5`"),
        ("device { overhed 5us }", "IL101", "unknown word `overhed`"),
        ("replicas { }", "IL101", "expected a whole number after `replicas`, not `{`"),
        ("replicas 0 { }", "IL102", "`replicas 0`: expected at least 1"),
        ("replicas 2 { } replicas 3 { }", "IL103", "`replicas` is given twice in schedule `s`"),
        ("model { layer a { vocabulary 10 } }", "IL101", "`vocabulary` stands alone"),
        ("model { layer a { parameters 10  weights 1KB } }", "IL103", "`parameters` beside `weights`"),
        ("model { layer a { parameters 1.5 } }", "IL102", "`parameters` is a whole number"),
        (
            "model { layer a { weights 1KB per image } }",
            "IL102",
            "`weights` does not grow with the images of a microbatch",
        ),
        (
            "model { layer a { } } assume a.weights in [1KB per image, 2KB per image]",
            "IL102",
            "`weights` does not grow with the images of a microbatch",
        ),
    ],
)
def test_mistakes(statement, code, said):
    (found,) = errors(f"schedule s {{ ranks 2 microbatches 4 {statement} }}")
    assert (found[0], found[3]) == (code, said)
