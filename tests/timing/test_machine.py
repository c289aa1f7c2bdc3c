"""The machine as a file describes it: the same as the library's, in every command that has durations; figures
by hand.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from interlock import cli
from interlock.algebra.machine import machine_of
from interlock.algebra.standard import elaborate_text
from interlock.check.files import check_file
from interlock.load import Question
from interlock.text.finding import InputError
from interlock.timing.durations import DataParallel, Link, Machine, NoTimes, compute_durations
from interlock.timing.simulate import makespan


def text(
    machine: str,
    requires: str = "",
    ranks: int = 2,
    body: str = "1f1b",
    layers: str = "u[2]",
    times: str = "forward 1ms  backward_input 1ms  backward_weight 1ms",
) -> str:
    return (
        f"schedule s {{ ranks {ranks} microbatches 4 model {{ layers {layers} {{ {times}  output 1MB  "
        f"weights 4MB }} }} cut {{ x = u : {body} }} {machine}"
        f" require {{ {requires} }} }}"
    )


def verdict(source: str) -> tuple[str, set[str]]:
    result = check_file("s.sched", source.encode(), Question())
    assert not result.errors, result.errors
    found = result.checked[0]
    return found.verdict.value, {f.code for a in found.answers for f in a.errors}


def test_a_file_describes_the_machine_of_the_library():
    found = machine_of(
        elaborate_text(
            text(
                "link { latency 1us bandwidth 1GB/s } link 0-1 { latency 3us } replicas 8 { latency 5us "
                "bandwidth 2GB/s }"
                " device { overhead 5us  speed 0.8 on ranks 1  overlap 3ms  overlap 4ms on stages 0, 1 }"
            )
        )
    )
    assert found == Machine(
        Link(1000, 10**9),
        {(0, 1): Link(3000, 10**9)},
        5000,
        (Fraction(1), Fraction(4, 5)),
        {None: 3_000_000, (0, 1): 4_000_000},
        DataParallel(8, Link(5000, 2 * 10**9)),
        Fraction(1),
    )
    assert machine_of(elaborate_text(text("replicas 2 { blocking }"))).data == DataParallel(2, Link(), False)
    assert machine_of(elaborate_text(text(""))) == Machine(gradient=Fraction(1))


@pytest.mark.parametrize(
    "gradient, reduced",
    [
        ("", 4),
        ("gradient 4B per parameter", 8),
        ("gradient 4B per parameter sharded 4", 8),
        ("gradient 0.5 per weight byte", 2),
    ],
)
def test_whole_gradients_are_summed(gradient, reduced):
    """Also where a rank keeps a part of them: so many MB at 1 GB/s over two replicas take as many ms."""
    e = elaborate_text(text(f"replicas 2 {{ bandwidth 1GB/s }} memory {{ {gradient} }}"))
    plain = elaborate_text(text(""))
    spans = [makespan(x.program, compute_durations(x.program, x.times, machine_of(x))) for x in (e, plain)]
    assert spans[0] - spans[1] == reduced * 1_000_000


@pytest.mark.parametrize(
    "machine, total",
    [
        ("", 14_000_000),  # F0, four times F and B on rank 1, and B3: the first stage pays no I
        ("device { overhead 10us }", 14_100_000),  # ten operations on the critical path
        ("device { speed 0.5 }", 28_000_000),
        ("device { speed 2 on ranks 0  speed 2 on ranks 1 }", 7_000_000),
        ("device { speed 0.5 on ranks 1 }", 26_000_000),  # 1 + 4 * 6 + 1
        (
            "device { speed 0.3 overhead 1ns }",
            46_666_702,
        ),  # six times ceil(1,000,001 / 0.3), four times ceil(2,000,001 / 0.3)
        ("link { latency 100us }", 14_200_000),  # there and back: rank 1 never waits in between
        ("link { latency 7ms } link 1-0 { latency 100us }", 14_200_000),
        (
            "replicas 4 { latency 0.1ms  bandwidth 1GB/s }",
            20_600_000,
        ),  # 2 * 3 * (0.1 + 1) ms of 4 MB, as one MB from each, after the last B
        ("replicas 4 { latency 0.1ms  bandwidth 1GB/s  blocking }", 20_600_000),
    ],
)
def test_by_hand(machine, total):
    e = elaborate_text(text(machine))
    assert makespan(e.program, compute_durations(e.program, e.times, machine_of(e))) == total
    assert verdict(text(machine, f"makespan <= {total}ns")) == ("valid", set())
    assert verdict(text(machine, f"makespan < {total}ns")) == ("invalid", {"IL705"})


def test_speeds_and_overlaps_are_exact_or_refused():
    """18 decimals of a speed, and times that no step has."""
    e = elaborate_text(text("device { speed 0.999999999999999999 }"))
    assert compute_durations(e.program, e.times, machine_of(e)).row[0] == 1_000_001
    for clause in ("speed 0.000000000000000001", "overlap 9_000_000s"):
        e = elaborate_text(text(f"device {{ {clause} }}", body="dualpipev", layers="u[4]"), microbatches=40)
        with pytest.raises(NoTimes):
            compute_durations(e.program, e.times, machine_of(e))


def test_overlaps_of_pairs_of_stages():
    """An overlap takes what is given for its stages, else for all, else the longer half."""
    rows = {}
    for clause in ("", "overlap 5ms", "overlap 5ms overlap 6ms on stages 0, 3"):
        e = elaborate_text(text(f"device {{ {clause} }}", body="dualpipev", layers="u[4]"))
        found = compute_durations(e.program, e.times, machine_of(e))
        halves = [
            i
            for i in range(len(e.program.order))
            if e.program.order.launch[i] >= 0 and e.program.show(i)[1] == "F"
        ]
        rows[clause] = {e.program.show(i)[0]: int(found.row[i]) for i in halves}
    assert (
        {0, 1} <= {int(s) for s in rows[""]}
        and set(rows[""].values()) == {1_000_000, 2_000_000}
        and set(rows["overlap 5ms"].values()) == {5_000_000}
    )
    pair = rows["overlap 5ms overlap 6ms on stages 0, 3"]
    assert pair["0"] == 6_000_000 and {v for s, v in pair.items() if s != "0"} == {5_000_000}


def test_beside_compute_or_in_its_order():
    """Two stages a rank: beside compute, the first reduction hides under what the rank still does."""

    def source(more):
        return text(f"replicas 2 {{ bandwidth 2GB/s {more} }}", body="gpipe(chunks: 2)", layers="u[4]")

    total = {}
    for more in ("", "blocking"):
        e = elaborate_text(source(more))
        total[more] = makespan(e.program, compute_durations(e.program, e.times, machine_of(e)))
    assert total[""] < total["blocking"]


@pytest.mark.parametrize(
    "machine, said",
    [
        ("device { speed 1 on ranks 2 }", "there is no rank 2: the ranks are 0..1"),
        ("device { overlap 1ms on stages 0, 2 }", "there is no stage 2: the stages are 0..1"),
        ("link 0-2 { latency 1us }", "there is no link 0-2"),
        ("link 1-1 { latency 1us }", "there is no link 1-1"),
    ],
)
def test_what_is_not_there(machine, said):
    with pytest.raises(InputError) as refused:
        elaborate_text(text(machine))
    assert refused.value.findings[0].code == "IL204" and said in refused.value.findings[0].message


def test_exposure_and_bubble_have_the_same_machine():
    """Rank 0, which encodes microbatch 0 first of all, is half as fast: the encode delays everything by 2 ms
    more.
    """
    source = (
        "schedule s {{ ranks 2 microbatches 1 model {{ layer vit {{ forward 2ms frozen }} layers u[2] {{ "
        "forward 1ms backward_input 1ms backward_weight 1ms }} }}"
        " cut {{ e = vit : transpose  x = u : 1f1b }} device {{ {} }} require {{ {} }} }}"
    )
    slow = "speed 0.5 on ranks 0"
    assert verdict(source.format("", "exposure <= 2ms")) == ("valid", set()) and verdict(
        source.format(slow, "exposure <= 2ms")
    ) == ("invalid", {"IL704"})
    assert verdict(source.format(slow, "exposure <= 4ms")) == ("valid", set())
    # rank 0 is busy for 4 + 2 + 2, rank 1 for 1 + 2 of 11 ms: the first stage pays no I
    assert verdict(source.format(slow, "bubble <= 50%")) == ("valid", set()) and verdict(
        source.format(slow, "bubble < 50%")
    ) == ("invalid", {"IL703"})


def test_pictures_and_comparisons_have_it_too(tmp_path, capsys):
    for name, machine in (("one", ""), ("two", "device { speed 0.5 }")):
        (tmp_path / f"{name}.sched").write_text(text(machine).replace("schedule s", f"schedule {name}"))
    assert (
        cli.main(["show", str(tmp_path / "two.sched")]) == 0 and "makespan 28 ms" in capsys.readouterr().out
    )
    assert cli.main(["compare", str(tmp_path / "one.sched"), str(tmp_path / "two.sched")]) == 0
    out = capsys.readouterr().out
    assert "14 ms" in out and "28 ms" in out


def test_an_emulation_runs_reductions_in_order(tmp_path, capsys):
    """Its ranks do one thing after another: what the file has beside compute is refused before a process
    starts.
    """
    path = tmp_path / "s.sched"
    path.write_text(text("replicas 2 { bandwidth 1GB/s }"))
    assert cli.main(["run", str(path), "--emulate"]) == 2 and "`blocking`" in capsys.readouterr().err
