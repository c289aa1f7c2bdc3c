"""Every construct of the language, as it comes out of the parser."""

from __future__ import annotations

import json
import re

import pytest

from interlock.language import ast
from interlock.language.parse import parse
from interlock.text import resources
from interlock.text.source import Sources
from language.support import FILES, bare, read, schedule, skeleton


def words(items) -> list[str]:
    return [str(w) for w in items]


def ref(layer: ast.LayerRef) -> tuple:
    return layer.group.text, *((layer.range.first, layer.range.last) if layer.range else ())


def ranges(items) -> list[tuple[int, int]]:
    return [(r.first, r.last) for r in items]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example_files_are_read(path):
    assert read(path.read_text())


def test_a_schedule_from_the_algebra():
    s = read((FILES[0].parent / "qwen_vl.sched").read_text()).schedules[0]
    assert (s.name.text, s.ranks.value, s.microbatches.value, words(s.comm)) == ("qwen_vl", 4, 8, ["pair"])
    vit, proj, llm, head = s.model.items
    assert [(g.name.text, g.size) for g in s.model.items] == [
        ("vit", 24),
        ("proj", 1),
        ("llm", 48),
        ("head", 1),
    ]
    forward = vit.get("forward").value
    assert (forward.value, forward.dimension, forward.per_image) == (400_000, "time", True)
    assert vit.get("modality").value.text == "vision" and vit.get("frozen") and not proj.get("frozen")
    assert llm.get("weights").value.value == -(-4 * 2**30 // 10)
    assert [c.value for c in s.images.counts] == [1, 0, 2, 1, 0, 0, 3, 1]
    encoder, backbone = s.cut.regions
    assert ([ref(r) for r in encoder.layers], encoder.skeleton.text) == ([("vit",), ("proj",)], "transpose")
    assert [(a.name.text, str(a.value)) for a in encoder.arguments] == [
        ("owner", "greedy"),
        ("place", "prefix"),
    ]
    assert [i.value for i in backbone.arguments[0].value.items] == [11, 13, 13, 12]
    assert (s.communicators[0].name.text, ranges(s.communicators[0].ranks)) == ("seam", [(0, 3)])
    assert (
        s.memory.capacities[0].size.value == 64 * 2**30
        and s.memory.optimizer.amount.value == 8
        and s.memory.gradient is None
    )
    assert (
        s.links[0].ranks is None
        and s.links[0].latency.value == 20_000
        and s.links[0].bandwidth.value == 200 * 10**9
    )
    assert [ref(r) for r in s.for_any[0].of] == [("vit",), ("proj",)]
    assert [c.condition.left.text for c in s.requires] == ["peak", "bubble", "exposure"]
    bubble = s.requires[1].condition.right
    assert (bubble.value, bubble.scale, bubble.dimension) == (3, 25, "percent")
    assert (s.expects[0].verdict, words(s.expects[0].models)) == ("valid", ["buffered", "edge", "pair"])


def test_statements_of_a_schedule():
    s = schedule("""
      model { layers a[3] { } layer b { } }
      comm pair, rank
      modality vision in microbatches 0, 2..3
      freeze a[0..1], b
      tie a[0], b
      tie ends = a[0], b @c
      communicator c = ranks 0, 1
      assume a[1].forward in [2ms, 9ms]
      link 0-1 { latency 5us }
      device { peak_flops 989TFLOP/s  hbm_bandwidth 3.35TB/s }
      memory { capacity 64GiB capacity 80GiB on ranks 1 gradient 1.5 per weight byte }
      prove { deadlock_free under blocking, rank  makespan <= 3s }
      expect invalid IL402, IL403 under pair
      expect unknown
      expect vacuous""")
    assert words(s.comm) == ["pair", "rank"]
    assert (s.presence[0].modality.text, ranges(s.presence[0].microbatches)) == ("vision", [(0, 0), (2, 3)])
    assert [ref(r) for r in s.freezes[0].layers] == [("a", 0, 1), ("b",)]
    assert s.ties[0].name is None and s.ties[1].name.text == "ends" and s.ties[1].comm.text == "c"
    assert (ref(s.assumptions[0].layer), s.assumptions[0].property, s.assumptions[0].high.value) == (
        ("a", 1, 1),
        "forward",
        9_000_000,
    )
    assert s.links[0].ranks == (0, 1) and s.links[0].bandwidth is None
    assert s.device.peak_flops.value == 989 * 10**12 and s.device.hbm_bandwidth.value == 3_350 * 10**9
    assert [ranges(c.ranks) for c in s.memory.capacities] == [[], [(1, 1)]]
    assert (s.memory.gradient.amount.value, s.memory.gradient.amount.scale) == (3, 2)
    assert [words(c.models) for c in s.proves[0].claims] == [["blocking", "rank"], []]
    assert [(e.verdict, words(e.codes), words(e.models)) for e in s.expects] == [
        ("invalid", ["IL402", "IL403"], ["pair"]),
        ("unknown", [], []),
        ("vacuous", [], []),
    ]


def test_models_by_pattern_and_profile():
    s = schedule("""model {
      kind mamba { forward 1ms }
      pattern trunk = "M-M*" { "M" = mamba  "-" = mlp { forward 2ms }  "*" = attention { flops 3GFLOP hbm_bytes 1MB } }
      layer head { }
      attach head to trunk[3]
    }
    cut { all = mamba[0..1], trunk, head : 1f1b }""")
    kind, pattern, _, attach = s.model.items
    assert (kind.size, pattern.text, pattern.name.text, [k.letter for k in pattern.kinds]) == (
        0,
        "M-M*",
        "trunk",
        ["M", "-", "*"],
    )
    assert ref(attach.to) == ("trunk", 3, 3)
    assert schedule('model "profile.toml"').model.profile == "profile.toml"


def test_stages_frozen_and_tied_by_number():
    s = schedule("""place { rank 0: 0, 3  rank 1: 1..2  replicated 4: owner [0, 1, 0, 1] }
      communicator c = ranks 0, 1
      freeze stage 0  freeze 1, 2..3  tie stage 0, 3  tie e = stage 0, 3 @c
      order transfers inserted { rank 0: 0F0 }""")
    assert [ranges(f.stages) for f in s.freezes] == [[(0, 0)], [(1, 1), (2, 3)]]
    assert [(t.name and t.name.text, ranges(t.stages)) for t in s.ties] == [
        (None, [(0, 0), (3, 3)]),
        ("e", [(0, 0), (3, 3)]),
    ]
    *ranks, replicated = s.place.lines
    assert [(line.rank.value, ranges(line.stages)) for line in ranks] == [
        (0, [(0, 0), (3, 3)]),
        (1, [(1, 2)]),
    ]
    assert (replicated.stage.value, [o.value for o in replicated.owner]) == (4, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "header, expected",
    [
        ("order transfers inserted", ("order", "inserted", "inserted", False)),
        ("order transfers written", ("order", "written", "written", False)),
        ("order transfers written reductions inserted", ("order", "written", "inserted", False)),
        ("fragment order transfers inserted reductions written", ("order", "inserted", "written", True)),
        ("trace", ("trace", "written", "written", False)),
        ("fragment trace", ("trace", "written", "written", True)),
    ],
)
def test_headers_of_orders(header, expected):
    order = schedule(f"{header} {{ rank 0: 0F0 rank 1: }}").order
    assert (order.form, order.transfers, order.reductions, order.fragment) == expected
    assert [len(rank.items) for rank in order.ranks] == [1, 0]


def test_a_skeleton():
    s = read((FILES[0].parent / "skeletons.sched").read_text()).skeletons
    one, transpose, dual = s
    assert (one.name.text, words(one.parameters), one.layout, one.transfers) == (
        "1f1b",
        ["P", "M"],
        "sharded",
        "inserted",
    )
    let, first, *_ = one.program.body
    assert isinstance(let, ast.Let) and let.value.function.text == "min"
    assert isinstance(first.over, ast.Range) and first.body[0].kind == "F"
    assert [words(c.models) for c in one.proves[0].claims] == [["blocking"], []] and len(
        one.proves[0].given
    ) == 2
    owned, body, _ = transpose.program.body
    assert (
        transpose.layout == "replicated"
        and owned.over.function.text == "owned"
        and isinstance(body, ast.Body)
    )
    assert dual.chunks.value == 2 and dual.place.text == "vee" and dual.where.operator == ">="
    branch = dual.program.body[4].body[0]
    assert (
        isinstance(branch, ast.If) and len(branch.conditions) == 1 and branch.otherwise[0].form == "overlap"
    )


def test_attributes_of_a_skeleton_stand_in_any_order():
    a = skeleton(
        "F(0)", "s(P, M, V) sharded chunks V place map(q, c) = c*P + q weaves into 1f1b where M >= 1"
    )
    b = skeleton(
        "F(0)", "s(P, M, V) sharded where M >= 1 weaves into 1f1b place map(q, c) = c*P + q chunks V"
    )
    assert bare(a) == bare(b)
    assert (a.weaves_into.text, a.chunks.text, a.place.chunk.text) == ("1f1b", "V", "c")


def test_transfers_in_a_skeleton():
    s = skeleton(
        "group { SEND_F(0)  RECV_B(0, 1)@seam }  if r == 0 { } else if r == 1 { STEP } else { ZERO }  "
        "REDUCE  REDUCE(1)"
    )
    group, branch, *reductions = s.program.body
    assert s.transfers == "written" and group.form == "group" and group.body[1].comm.text == "seam"
    assert len(branch.conditions) == 2 and branch.blocks[0] == () and branch.otherwise[0].kind == "ZERO"
    assert [len(r.arguments) for r in reductions] == [0, 1]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("1 - 2 - 3", ("-", ("-", 1, 2), 3)),
        ("7 div 2 mod 3", ("mod", ("div", 7, 2), 3)),
        ("(1 + 2) * -P", ("*", ("+", 1, 2), ("neg", "P"))),
        ("max(P, M - 1, 0)", ("max", "P", ("-", "M", 1), 0)),
    ],
)
def test_expressions_bind_as_usual(text, expected):
    def short(e):
        match e:
            case ast.Int():
                return e.value
            case ast.Name():
                return e.text
            case ast.Negate():
                return "neg", short(e.operand)
            case ast.Call():
                return e.function.text, *map(short, e.arguments)
        return e.operator, short(e.left), short(e.right)

    assert short(skeleton(f"let x = {text}").program.body[0].value) == expected


def test_conditions_bind_not_before_and_before_or():
    condition = skeleton("if not P < 1 and M < 2 or (r == 0 or r != 1) { }").program.body[0].conditions[0]
    assert (
        condition.operator == "or"
        and condition.left.operator == "and"
        and isinstance(condition.left.left, ast.Not)
    )
    assert condition.right.operator == "or"


def test_words_are_reserved_only_where_they_are_asked_for():
    s = schedule("""model { layer rank { } layer output { } layer let { } layers layer[2] { } }
      cut { order = rank, output, let, layer[0..1] : place(freeze: any) }
      communicator step = ranks 0
      freeze rank""")
    assert s.cut.regions[0].name.text == "order"
    assert skeleton("let body = P  let body2 = body  F(body)").program.body[2].arguments[0].text == "body"


def test_use_names_another_file():
    file = read('use "lib/other.sched"\nskeleton s(P) sharded { rank r { } }')
    assert [u.path for u in file.uses] == ["lib/other.sched"]


def test_places_are_counted_over_all_sources():
    sources = Sources()
    sources.add("first", "x" * 100)
    text = "schedule s { ranks 2 microbatches 4 order transfers inserted { rank 0: 0F0 0F1 } }"
    source = sources.add("second", text)
    order = parse(source).schedules[0].order
    for op, word in zip(order.ranks[0].items, ("0F0", "0F1")):
        assert text[op.span.at - source.base :][: op.span.width] == word and sources.of(op.span.at) is source


def test_every_node_lies_in_the_text():
    def walk(node, inside):
        if hasattr(node, "span"):
            start, end = inside
            assert start <= node.span.at and node.span.at + node.span.width <= end, node
            inside = (node.span.at, node.span.at + node.span.width)
        if isinstance(node, tuple):
            for child in node:
                walk(child, inside)

    for path in FILES:
        text = path.read_text()
        walk(read(text), (0, len(text)))


def test_the_textmate_grammar_knows_every_word():
    grammar = json.loads(resources.read_text("grammar/sched.tmLanguage.json"))
    patterns = [re.compile(p["match"]) for p in grammar["patterns"]]
    for word in set(re.findall(r'"([a-z_]+)"', resources.read_text("grammar/sched.lark"))):
        before, after = {
            "valid": ("expect ", ""),
            "unknown": ("expect ", ""),
            "vacuous": ("expect ", ""),
            "invalid": ("expect ", ""),
            "skeleton": ("", " x"),
            "schedule": ("", " x"),
            "kind": ("", " x"),
            "layer": ("", " x"),
            "layers": ("", " x"),
            "communicator": ("", " x"),
            "expect": ("", " valid"),
        }.get(word, ("", "("))
        assert any(p.search(f"{before}{word}{after}") for p in patterns), word


def test_resources_are_found_in_a_checkout():
    assert resources.read_text("grammar/sched.lark").startswith("//")
    assert (resources.find_folder() / "spec" / "language.md").is_file()
