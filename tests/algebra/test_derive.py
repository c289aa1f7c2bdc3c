"""Cut to program: stages, transposition, weaving, list scheduling, freezing, microbatches without a modality."""

from __future__ import annotations

import itertools

import pytest

from interlock.algebra.owner import balanced as balanced_owner
from interlock.algebra.owner import greedy
from interlock.algebra.partition import balanced, even
from interlock.program.facts import Facts
from interlock.program.footprint import footprint
from interlock.program.kinds import Kind
from interlock.program.linearise import compute_times
from interlock.program.plain import plain_form

VLM = """schedule vlm {
  ranks 3
  microbatches 6
  model {
    layers vit[2] { forward 2ms per image  backward 4ms per image  modality vision }
    layers llm[6] { forward 3ms  backward_input 3ms  backward_weight 2ms }
  }
  IMAGES
  cut {
    encoder  = vit : transpose(owner: OWNER)
    backbone = llm : SKELETON
  }
  FREEZE
}"""


def vlm(images="", owner="round_robin", skeleton="1f1b", freeze=""):
    return (
        VLM.replace("IMAGES", images)
        .replace("OWNER", owner)
        .replace("SKELETON", skeleton)
        .replace("FREEZE", freeze)
    )


def without(lists, stages, kinds="FBIW"):
    return [
        [o for o in ops if not any(o.startswith(f"{s}{k}") for s in stages for k in kinds)] for ops in lists
    ]


def test_transpose_is_prefix_body_suffix(elaborated, rows):
    program = elaborated(vlm()).program
    assert rows(program) == [
        [
            "0F0",
            "0F3",
            "1F0",
            "1F1",
            "1F2",
            "1B0",
            "1F3",
            "1B1",
            "1F4",
            "1B2",
            "1F5",
            "1B3",
            "1B4",
            "1B5",
            "0B0",
            "0B3",
        ],
        [
            "0F1",
            "0F4",
            "2F0",
            "2F1",
            "2B0",
            "2F2",
            "2B1",
            "2F3",
            "2B2",
            "2F4",
            "2B3",
            "2F5",
            "2B4",
            "2B5",
            "0B1",
            "0B4",
        ],
        [
            "0F2",
            "0F5",
            "3F0",
            "3B0",
            "3F1",
            "3B1",
            "3F2",
            "3B2",
            "3F3",
            "3B3",
            "3F4",
            "3B4",
            "3F5",
            "3B5",
            "0B2",
            "0B5",
        ],
    ]
    assert program.inserted and program.reductions_inserted and compute_times(Facts(program)).complete
    assert program.stages[0].owner == (0, 1, 2, 0, 1, 2) and [s.rank for s in program.stages[1:]] == [0, 1, 2]


def test_owners_follow_the_first_stage(elaborated, rows):
    backwards = """skeleton backwards(P, M) sharded { rank r {
        for i in 0 ..< M { F(M - 1 - i) }
        for i in 0 ..< M { B((i + 2) mod M) } } }
    """
    lists = rows(elaborated(backwards + vlm(owner="[0, 0, 0, 1, 1, 1]", skeleton="backwards")).program)
    assert [o for o in lists[0] if o[0] == "0"] == ["0F2", "0F1", "0F0", "0B2", "0B0", "0B1"]
    assert [o for o in lists[1] if o[0] == "0"] == ["0F5", "0F4", "0F3", "0B3", "0B4", "0B5"]


def test_a_frozen_encoder_only_loses_its_backwards(elaborated, rows):
    trained, frozen = elaborated(vlm()), elaborated(vlm(freeze="freeze vit"))
    assert rows(frozen.trained) == rows(trained.program)
    assert rows(frozen.program) == without(rows(trained.program), "0", "B")
    assert [l.trainable for l in frozen.program.layers] == [False] * 2 + [True] * 6


def test_a_frozen_stage_in_the_middle_passes_the_gradient_through(elaborated, rows):
    frozen = rows(elaborated(vlm(freeze="freeze llm[2..3]")).program)
    assert [o for o in frozen[1] if o[0] == "2" and o[1] != "F"] == [f"2I{m}" for m in range(6)]


def test_text_only_microbatches_leave_out_the_encoder(elaborated, rows):
    full = rows(elaborated(vlm()).program)
    some = elaborated(vlm(images="images [1, 0, 2, 1, 0, 1]"))
    assert some.program.modalities == {"vision": frozenset({0, 2, 3, 5})}
    assert rows(some.program) == [[o for o in ops if o[0] != "0" or o[2] not in "14"] for ops in full]
    listed = elaborated(vlm(images="modality vision in microbatches 0, 2..3, 5"))
    assert rows(listed.program) == rows(some.program)


def test_everything_derived_matches_its_footprint(elaborated):
    cuts = [
        "a = vit : transpose  b = llm : 1f1b",
        "a = vit, llm : 1f1b",
        "a = vit, llm : gpipe(chunks: 2)",
        "a = vit, llm[0..3] : 1f1b  b = llm[4..7] : gpipe",
        "a = vit, llm[0..5] : 1f1b  b = llm[6..7] : transpose",
        "a = vit : transpose  b = llm[0..4] : 1f1b  c = llm[5] : transpose  d = llm[6..7] : 1f1b",
    ]
    for cut, images, freeze in itertools.product(
        cuts,
        ("", "images [1, 0, 0, 3]"),
        ("", "freeze vit", "freeze llm", "freeze vit, llm[0..5]", "freeze vit, llm"),
    ):
        p = elaborated(
            f"schedule s {{ ranks 2 microbatches 4 model {{ layers vit[2] {{ modality vision }} layers "
            f"llm[8] {{}} }} {images} cut {{ {cut} }} {freeze} }}"
        ).program
        fp = footprint(p)
        have = {(Kind(int(k)), int(s), int(m)) for k, s, m in zip(p.order.kind, p.order.stage, p.order.mb)}
        assert len(have) == len(p.order)
        want = set()
        for m in range(4):
            for s in range(len(p.stages)):
                c = fp.of[m]
                if fp.on_path[c, s]:
                    want.add((Kind.F, s, m))
                if fp.back[c, s]:
                    want.add((Kind.B if fp.wwork[c, s] else Kind.I, s, m))
        assert have == want, (cut, images, freeze)
        assert compute_times(Facts(p)).complete


def brute_list_schedule(P, M, ranks):
    """Unit-time greedy, stated over sets: backward first, then lower microbatch, then later stage."""
    S = len(ranks)
    done, lists = {}, [[] for _ in range(P)]
    todo = {(k, s, m) for k in "FB" for s in range(S) for m in range(M)}

    def needs(k, s, m):
        return (
            [("F", s - 1, m)]
            if k == "F" and s
            else []
            if k == "F"
            else [("B", s + 1, m), ("F", s, m)]
            if s < S - 1
            else [("F", s, m)]
        )

    t = 0
    while todo:
        for r in range(P):
            ready = [o for o in todo if ranks[o[1]](o[2]) == r and all(done.get(n, t) < t for n in needs(*o))]
            if ready:
                k, s, m = best = min(ready, key=lambda o: (o[0] != "B", o[2], -o[1]))
                todo.remove(best)
                done[best] = t
                lists[r].append(f"{s}{k}{m}")
        t += 1
    return lists


@pytest.mark.parametrize("M", (1, 2, 5))
def test_list_scheduling(elaborated, rows, M):
    schedule = elaborated(f"""schedule s {{ ranks 2 microbatches {M} model {{ layers u[7] {{}} }}
      cut {{ a = u[0..1] : 1f1b  b = u[2..3] : gpipe  c = u[4] : transpose(owner: round_robin)  d = u[5..6] : 1f1b }} }}""")
    fixed = [0, 1, 0, 1]
    ranks = [lambda m, r=r: r for r in fixed] + [lambda m: m % 2] + [lambda m, r=r: r for r in (0, 1)]
    assert rows(schedule.program) == brute_list_schedule(2, M, ranks)
    assert [w.code for w in schedule.warnings] == ["IL211", "IL211"] and "ignored" in schedule.warnings[
        1
    ].message
    assert [(s.forward, s.backward) for s in schedule.seams] == [
        ("Send", "RecvGrad"),
        ("Scatter", "Gather"),
        ("Gather", "Scatter"),
    ]


def test_a_replicated_region_alone_is_data_parallel(elaborated, rows):
    program = elaborated(
        "schedule s { ranks 2 microbatches 4 model { layers u[2] {} } cut { a = u : transpose } }"
    ).program
    assert rows(program) == [["0F0", "0F2", "0B0", "0B2"], ["0F1", "0F3", "0B1", "0B3"]]


def test_place_vee_and_maps(elaborated):
    skeleton = (
        "skeleton v(P, M) sharded chunks 2 PLACE { rank r { for i in 0 ..< M { F(i, 0)  F(i, 1) } "
        "for i in 0 ..< M { B(i, 1)  B(i, 0) } } }\n"
    )
    schedule = "schedule s { ranks 3 microbatches 2 model { layers u[6] {} } cut { a = u : v } }"

    def ranks(place):
        return [s.rank for s in elaborated(skeleton.replace("PLACE", place) + schedule).program.stages]

    assert ranks("place loop") == ranks("") == [0, 1, 2, 0, 1, 2]
    assert ranks("place vee") == [0, 1, 2, 2, 1, 0]
    assert ranks("place map(a, c) = 2*a + c") == [0, 0, 1, 1, 2, 2]


def test_overlaps_are_launches_that_ascend(elaborated, rows):
    text = """skeleton o(P, M) sharded { rank r { F(0) for i in 0 ..< M - 1 { overlap { F(i + 1)  B(i) } } B(M - 1) } }
    schedule s { ranks 2 microbatches 3 model { layers u[2] {} } cut { a = u : o } }"""
    p = elaborated(text).program
    assert rows(p)[0] == ["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"]
    assert p.order.launch.tolist() == [-1, 0, 0, 1, 1, -1, -1, 2, 2, 3, 3, -1]


def test_nested_loops_conditions_and_lets_step_by_step(elaborated, rows):
    text = """skeleton n(P, M, V) sharded chunks V { rank r {
      for i in 0 ..< M {
        let odd = i mod 2
        for c in 0 ..< V - odd { F(i, c) if c == 0 and i div max(c, 1) == i { B(i, 0) } else { I(i, c) } }
        if odd == 1 { F(i, V - 1) } else if i > 100 { F(i, i) }
      }
      for i in 0 ..< M { for c in i ..< V { W(i, c) } }
    } }
    schedule s { ranks 1 microbatches 4 model { layers u[3] {} } cut { a = u : n(chunks: 3) } }"""
    expected = []
    for i in range(4):
        for c in range(3 - i % 2):
            expected += [f"{c}F{i}", f"{c}{'B' if c == 0 else 'I'}{i}"]
        if i % 2 == 1:
            expected.append(f"2F{i}")
    expected += [f"{c}W{i}" for i in range(4) for c in range(i, 3)]
    assert rows(elaborated(text).program) == [expected]


@pytest.mark.parametrize(
    "weights", [[1] * 7, [9, 1, 1, 1, 5, 5, 2], [3, 3, 3, 3, 3, 3, 10], [0, 0, 0, 4, 0, 0]]
)
def test_balanced_partition_is_the_best_of_all(weights):
    n = len(weights)
    for stages in range(1, n + 1):
        counts = balanced([1] * n, weights, stages)
        assert len(counts) == stages and sum(counts) == n and min(counts) >= 1

        def worst(borders):
            return max(sum(weights[a:b]) for a, b in zip((0, *borders), (*borders, n)))

        best = min(worst(b) for b in itertools.combinations(range(1, n), stages - 1))
        assert worst(tuple(itertools.accumulate(counts[:-1]))) == best


def test_even_partition_gives_earlier_stages_the_remainder():
    assert even([1] * 11, 4) == [3, 3, 3, 2]


def test_attached_layers_stay_together(elaborated):
    text = """schedule s { ranks 3 microbatches 3 model { layers llm[5] { } layer head { } attach head to llm } cut { a = llm, head : 1f1bPART } }"""
    for part in ("", "(partition: balanced)"):
        stages = elaborated(text.replace("PART", part)).program.stages
        assert 5 not in [s.first for s in stages] and max(s.last - s.first for s in stages) == 2


def test_balanced_owners_have_the_smallest_spill():
    for encode, slot in (
        ([5, 4, 3, 3, 3], [0, 0]),
        ([1, 1, 1, 1], [0, 3, 6]),
        ([7, 2, 2, 2, 2, 2, 2], [0, 5, 9]),
        ([3, 0, 3], [0, 0]),
    ):

        def spill(owner):
            return max(0, *(sum(e for e, o in zip(encode, owner) if o == r) - w for r, w in enumerate(slot)))

        best = min(map(spill, itertools.product(range(len(slot)), repeat=len(encode))))
        assert spill(balanced_owner(encode, slot)) == best <= spill(greedy(encode, slot))


def test_times_are_resolved_before_freezing(elaborated):
    with_times = dict(
        images="images [1, 4, 2, 1, 0, 1]", owner="greedy", skeleton="1f1b(partition: balanced)"
    )
    free, frozen = (
        elaborated(vlm(**with_times)),
        elaborated(vlm(**with_times, freeze="freeze vit, llm[0..3]")),
    )
    assert frozen.program.layers != free.program.layers
    # slots 0, 6, 12 ms, 4 ms an image: 16 ms to rank 2, 8 to rank 1, then 4 to ranks 0, 1, 2
    assert free.owners == frozen.owners == {
        "encoder": (0, 2, 1, 1, 1, 2)
    } and free.partitions == frozen.partitions == {"backbone": [2, 2, 2]}


def test_another_number_of_microbatches_repeats_the_lists(elaborated):
    p = elaborated(
        vlm(images="images [1, 0, 2, 1, 0, 1]", owner="[0, 1, 2, 2, 1, 0]"), microbatches=8
    ).program
    assert (
        p.microbatches == 8
        and p.images == (1, 0, 2, 1, 0, 1, 1, 0)
        and p.stages[0].owner == (0, 1, 2, 2, 1, 0, 0, 1)
    )
    assert p.modalities["vision"] == {0, 2, 3, 5, 6}


def test_statements_are_resolved(elaborated):
    text = """schedule s { ranks 2 microbatches 2 comm edge, rank
      model { layers vit[2] { modality vision frozen } layers llm[4] { weights 2KiB } layer head { weights 2KiB } }
      cut { encoder = vit : transpose  backbone = llm, head : 1f1b }
      communicator seam = ranks 0..1
      memory { capacity 2GiB on ranks 1  capacity 1GiB  optimizer 1.5 per weight byte }
      tie llm[0], head
      for any freezing of encoder
      for any freezing of llm[1..2]
      assume vit.forward in [2ms, 9ms]
      require { peak <= 1GiB }
      expect valid under pair }"""
    e = elaborated(text)
    assert e.models == ("edge", "rank") and e.freezing == (0, 1, 3, 4) and e.comm_of == (1, 0, 0)
    assert e.assumes[0].layers == (0, 1) and e.assumes[0].low.value == 2_000_000
    assert (
        e.program.memory.capacity == (1 << 30, 2 << 30)
        and e.program.memory.optimizer == (3, 2)
        and e.program.memory.gradient == (1, 1)
    )
    assert [(t.name, t.stages, t.comm) for t in e.program.ties] == [
        ("llm_head", (1, 2), 0)
    ] and e.program.names == ("llm_head",)
    assert (
        len(e.requires) == len(e.expects) == 1
        and not e.program.layers[0].trainable
        and e.trained.layers[0].trainable
    )


def test_a_skeleton_may_write_its_own_transfers(elaborated, rows):
    text = """skeleton own(P, M) sharded { rank r {
        for i in 0 ..< M { if r > 0 { RECV_F(i) }  F(i)  if r < P - 1 { SEND_F(i)@up } }
        for i in 0 ..< M { if r < P - 1 { RECV_B(i) }  B(i)  if r > 0 { SEND_B(i) } }
        REDUCE(0)  STEP
    } }
    schedule s { ranks 2 microbatches 2 model { layers u[4] {} } communicator up = ranks 0..1 cut { a = u : own } FREEZE }"""
    p = elaborated(text.replace("FREEZE", "")).program
    assert rows(p) == [
        ["0F0", "0SEND_F0@up", "0F1", "0SEND_F1@up", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0REDUCE", "STEP"],
        ["1RECV_F0", "1F0", "1RECV_F1", "1F1", "1B0", "1SEND_B0", "1B1", "1SEND_B1", "1REDUCE", "STEP"],
    ]
    assert not p.inserted and not p.reductions_inserted
    frozen = elaborated(text.replace("FREEZE", "freeze u[0..1]")).program
    assert rows(frozen) == [
        ["0F0", "0SEND_F0@up", "0F1", "0SEND_F1@up", "STEP"],
        ["1RECV_F0", "1F0", "1RECV_F1", "1F1", "1B0", "1B1", "1REDUCE", "STEP"],
    ]


def test_patterns_name_their_kinds(elaborated):
    e = elaborated("""schedule s { ranks 2 microbatches 2
      model { kind mamba { weights 1KiB } pattern trunk = "M*MM*" { "M" = mamba "*" = attention { weights 2KiB } } layer head { } }
      freeze mamba[1..2]
      cut { a = trunk[0..2] : 1f1b  b = trunk[3..4], head : 1f1b(partition: balanced) } }""")
    assert [l.name for l in e.program.layers] == [
        "mamba[0]",
        "attention[0]",
        "mamba[1]",
        "mamba[2]",
        "attention[1]",
        "head",
    ]
    assert [l.trainable for l in e.program.layers] == [True, True, False, False, True, True]
    assert [l.weights for l in e.program.layers] == [1024, 2048, 1024, 1024, 2048, 0]


def test_recomputed_layers_take_their_forward_twice(elaborated):
    text = """schedule s { ranks 2 microbatches 2
      model { layers a[3] { forward 4ms  backward 1ms recompute } layers b[2] { forward 4ms  backward 1ms } layers c[2] { forward 4ms  backward 1ms } }
      cut { all = a, b, c : 1f1b(partition: balanced) } }"""
    twice, once = elaborated(text), elaborated(text.replace("recompute", ""))
    assert [l.recompute for l in twice.program.layers] == [True] * 3 + [False] * 4 and not any(
        l.recompute for l in once.program.layers
    )
    assert twice.partitions == {"all": [3, 4]} and once.partitions == {"all": [4, 3]}
    assert (
        plain_form(twice.program)["layers"][0]["recompute"] is True
        and "recompute" not in plain_form(once.program)["layers"][0]
    )
