"""Durations by the footprint: what a stage pays in each microbatch, links, speeds, overheads, overlaps,
reductions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from interlock.algebra.machine import machine_of
from interlock.algebra.standard import derive_standard, elaborate_text
from interlock.program.ir import Layer, Size
from interlock.program.kinds import Kind
from interlock.program.transfers import insert
from interlock.timing.durations import (
    DataParallel,
    Link,
    Machine,
    NoTimes,
    compute_durations,
    durations_by_kind,
    layer_durations,
)
from interlock.timing.layer_times import LayerTimes

MODEL = """
schedule s {{
  ranks 2
  microbatches 3
  model {{
    layers vit[2] {{ forward 2us per image  backward_input 3us per image  backward_weight 5us per image  output 1KB per image  modality vision {vit} }}
    layers llm[4] {{ forward 7us  backward_input 11us  backward_weight 13us  output 1MB {llm} }}
  }}
  images [1, 0, 2]
  {link}
  cut {{ enc = vit : transpose(owner: [0, 1, 1])  body = llm : 1f1b }}
}}
"""


def costs(vit: str = "", llm: str = "", link: str = "", **options) -> dict[str, int]:
    """ns of every operation of the schedule above."""
    e = elaborate_text(MODEL.format(vit=vit, llm=llm, link=link))
    d = compute_durations(e.program, e.times, machine_of(e, **options))
    return {e.program.show(i): int(d.row[i]) for i in range(len(e.program.order))}


def test_a_trained_model():
    found = costs()
    assert found["0F0"] == 2 * 2000 and found["0F2"] == 4 * 2000 and "0F1" not in found
    assert found["0B0"] == 3000 + 2 * 5000  # the first layer needs no input gradient
    assert found["1F0"] == 2 * 7000 and found["1B0"] == 2 * (11000 + 13000)
    assert found["1B1"] == 11000 + 2 * 13000  # text only: nothing trained lies before its first layer


def test_a_frozen_encoder_pays_nothing_and_the_layer_after_it_less():
    found = costs(vit="frozen")
    assert not any(name[:2] == "0B" or name[:2] == "0I" for name in found)
    assert found["1B0"] == 11000 + 2 * 13000 and found["2B0"] == 2 * (11000 + 13000)


def test_a_frozen_backbone_passes_gradients_through():
    found = costs(llm="frozen")
    assert found["1I0"] == 2 * 11000 and "1B0" not in found and "1I1" not in found


def test_recomputed_layers_run_again():
    assert costs(llm="recompute")["2B0"] - costs()["2B0"] == 2 * 7000
    assert costs(vit="frozen", llm="recompute")["1B0"] - costs(vit="frozen")["1B0"] == 2 * 7000


def test_forward_is_backward():
    found = costs(forward_is_backward=True)
    assert (
        found["1B0"] == found["1F0"] and found["0B2"] == 4000
    )  # the first layer pays W alone, which is nothing here


def test_overhead_and_speeds():
    assert costs(overhead=10)["1F0"] == 14010
    slow = costs(speeds=(1, Fraction(3, 5)))
    assert slow["1F0"] == 14000 and slow["2F0"] == -(-14000 * 5 // 3)
    with pytest.raises(ValueError):
        costs(speeds=(1,))


def test_layers_by_the_footprint():
    t = LayerTimes(Size(1), None, Size(10), Size(100))
    layers = [Layer("a", False), Layer("b", True), Layer("c", False, recompute=True), Layer("d", True)]
    out, lacks = layer_durations(layers, np.array([True] * 4), [t] * 4, 1)
    assert (
        out.tolist() == [[1, 1, 1, 1], [0, 100, 11, 110], [0, 0, 11, 10], [0, 100, 0, 100]]
        and not lacks.any()
    )
    out, _ = layer_durations(layers, np.array([True, False, True, True]), [t] * 4, 1)
    assert out.tolist() == [[1, 0, 1, 1], [0, 0, 0, 100], [0, 0, 0, 0], [0, 0, 0, 100]]


def test_a_backward_that_was_never_split():
    t = LayerTimes(Size(1), Size(50))
    layers = [Layer("a"), Layer("b"), Layer("c", False)]
    out, lacks = layer_durations(layers, np.array([True] * 3), [t] * 3, 1)
    assert out[int(Kind.B)].tolist() == [50, 50, 0] and lacks[int(Kind.B)].tolist() == [False, False, True]
    assert lacks[int(Kind.I)].tolist() == [False, True, True] and lacks[int(Kind.W)].tolist() == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "properties, says", [("", "no times"), ("forward 1us", "`backward`"), ("backward 1us", "no times")]
)
def test_what_is_missing_is_said(properties, says):
    e = elaborate_text(
        f"schedule s {{ ranks 2 microbatches 2 model {{ layers u[2] {{ {properties} }} }} cut {{ x = u : "
        f"1f1b }} }}"
    )
    with pytest.raises(NoTimes, match=says):
        compute_durations(e.program, e.times)


def test_split_backward_asks_for_halves():
    e = elaborate_text(
        "schedule s { ranks 2 microbatches 2 model { layers u[4] { forward 1us backward 2us } } cut { x = u "
        ": zb_h1 } }"
    )
    with pytest.raises(NoTimes, match=r"`u\[1\]`.*`backward_input`|`u\[0\]`.*`backward_weight`"):
        compute_durations(e.program, e.times)


def test_roofline_where_only_work_is_known():
    e = elaborate_text(
        "schedule s { ranks 1 microbatches 1 device { peak_flops 1TFLOP/s hbm_bandwidth 1GB/s }"
        " model { layer a { flops 5GFLOP hbm_bytes 1MB } layer b { flops 1MFLOP hbm_bytes 3MB } } cut { x = "
        "a, b : 1f1b } }"
    )
    d = compute_durations(e.program, e.times)
    assert d.row.tolist() == [
        5_000_000 + 3_000_000,
        5_000_000 + 2 * 3_000_000,
    ]  # the first layer's input needs no gradient


def test_links_and_written_transfers():
    e = elaborate_text(
        MODEL.format(vit="", llm="", link="link { latency 3us bandwidth 1GB/s } link 0-1 { bandwidth 3GB/s }")
    )
    machine = machine_of(e)
    assert machine.links == Link(3000, 10**9) and machine.between(1, 0) == Link(3000, 3 * 10**9)
    written = insert(e.trained)
    d = compute_durations(written, e.times, machine)
    took = {
        written.show(i): int(d.row[i])
        for i in range(len(written.order))
        if Kind.SEND_F <= written.order.kind[i] <= Kind.RECV_B
    }
    assert (
        took["0SEND_F2"]
        == took["1RECV_F2"]
        == took["1SEND_B2"]
        == took["0RECV_B2"]
        == 3000 + -(-2 * 1000 // 3)
    )
    assert took["1SEND_F1"] == took["2RECV_F1"] == took["2SEND_B1"] == 3000 + -(-(10**6) // 3)
    assert Link(5).time(10**12) == 5 and Link(0, 3).time(1) == 333_333_334


def test_overlaps_take_the_longer_or_what_is_given():
    p = derive_standard("dualpipev", 2, 6, 2)
    both = np.flatnonzero(p.order.launch >= 0)
    times = {Kind.F: 3, Kind.B: 5, Kind.I: 2, Kind.W: 3}
    assert set(durations_by_kind(p, times).row[both]) == {5}
    assert set(durations_by_kind(p, times, machine=Machine(overlap=7, overhead=1)).row[both]) == {8}
    given = durations_by_kind(p, times, machine=Machine(overlap={(0, 3): 6})).row[both]
    assert set(given) == {5, 6}


def test_reductions_over_replicas_of_the_pipeline():
    e = elaborate_text(
        "schedule s { ranks 2 microbatches 2 model { layers u[2] { forward 1us backward 2us weights 1MB } } "
        "memory { capacity 1GB gradient 2 per weight byte }"
        " cut { x = u : 1f1b } }"
    )
    written = insert(e.program)
    d = compute_durations(written, e.times, Machine(data=DataParallel(4, Link(1000, 10**9))))
    reduce = np.flatnonzero(written.order.kind == Kind.REDUCE)
    assert set(d.row[reduce]) == {6 * (1000 + 500_000)} and d.beside[reduce].all()
    assert not compute_durations(
        written, e.times, Machine(data=DataParallel(4, Link(), overlap=False))
    ).beside.any()
    assert DataParallel(1, Link(1000)).time(10**6) == 0
