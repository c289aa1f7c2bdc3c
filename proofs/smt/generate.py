"""Writes the SMT-LIB files of this folder: lemmas that quantifier-free or inductive queries carry.

    python proofs/smt/generate.py        rewrites them; a test compares

Each file is a theorem (spec/smt.md) in lemmas. A lemma assumes its lines, asserts the negation of its goal,
and is unsat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REGIONS = 12


@dataclass(frozen=True)
class Lemma:
    title: str
    lines: tuple[str, ...]
    goal: str


@dataclass(frozen=True)
class File:
    name: str
    theorem: str
    statement: str
    logic: str
    lines: tuple[str, ...]
    lemmas: tuple[Lemma, ...]


def write_text(file: File, goals: bool = True) -> str:
    """`goals`: without them each part asks whether what it assumes can hold at all."""
    out = [
        f"; {file.theorem}",
        *(f"; {line}".rstrip() for line in file.statement.strip().splitlines()),
        "; Written by generate.py.",
        "(set-info :status unsat)" if goals else "",
        f"(set-logic {file.logic})",
        *file.lines,
    ]
    for part in file.lemmas:
        out += ["", *(f"; {line}" for line in part.title.splitlines()), "(push 1)", *part.lines]
        out += [f"(assert (not {part.goal}))"] if goals else []
        out += ["(check-sat)", "(pop 1)"]
    return "\n".join(out) + "\n"


def disjoin(terms: Iterable[str]) -> str:
    terms = list(terms)
    return terms[0] if len(terms) == 1 else f"(or {' '.join(terms)})" if terms else "false"


def conjoin(terms: Iterable[str]) -> str:
    terms = list(terms)
    return terms[0] if len(terms) == 1 else f"(and {' '.join(terms)})" if terms else "true"


def make_lemma(title: str, *lines_and_goal: str) -> Lemma:
    """The goal is the last."""
    *lines, goal = lines_and_goal
    return Lemma(title, tuple(lines), goal)


def define(name: str, term: str, sort: str = "Bool") -> str:
    return f"(define-fun {name} () {sort} {term})"


def state_footprint() -> File:
    """Regions 1..12 of two layers each, a and b, of which a microbatch may lack either."""
    lines, parts = [define("wanted.0", "false")], []
    layers: list[str] = []  # present and trained, along the chain
    for s in range(1, REGIONS + 1):
        before = list(layers)
        lines += ["", f"; region {s}"]
        last = f"wanted.{s - 1}"
        for x in "ab":
            lines += [f"(declare-const present.{s}{x} Bool)", f"(declare-const trained.{s}{x} Bool)"]
            lines += [
                define(f"input.{s}{x}", f"(and present.{s}{x} {last})"),
                define(f"weight.{s}{x}", f"(and present.{s}{x} trained.{s}{x})"),
            ]
            wanted = f"wanted.{s}{x}" if x == "a" else f"wanted.{s}"
            lines += [define(wanted, f"(or weight.{s}{x} {last})")]
            last = wanted
            layers.append(f"weight.{s}{x}")
        first, second = f"weight.{s}a", f"weight.{s}b"
        lines += [define(f"on_path.{s}", f"(or present.{s}a present.{s}b)")]
        lines += [
            define(f"cross.{s}", disjoin(before)),
            define(f"back.{s}", disjoin([*before, first, second])),
        ]
        lines += [
            define(f"iwork.{s}", f"(ite present.{s}b {disjoin([*before, first])} {disjoin(before)})"),
            define(f"wwork.{s}", f"(or {first} {second})"),
        ]
        works = f"(or input.{s}a weight.{s}a input.{s}b weight.{s}b)"
        same = [
            f"(= cross.{s} wanted.{s - 1})",
            f"(= back.{s} {works} wanted.{s})",
            f"(= iwork.{s} (ite present.{s}b input.{s}b input.{s}a))",
            f"(=> {first} wanted.{s}a)",
            f"(=> {second} wanted.{s})",
        ]
        ends = [
            f"(=> {conjoin([f'on_path.{r}', *(f'(not on_path.{q})' for q in range(r + 1, s))])} (= back.{r} "
            f"cross.{s}))"
            for r in range(1, s)
        ]
        lines += [define(f"agrees.{s}", f"(=> on_path.{s} {conjoin([*same, *ends])})")]
        parts.append(Lemma(f"{s} region{'s' * (s > 1)}", (), conjoin(f"agrees.{i}" for i in range(1, s + 1))))
    return File(
        "t3-footprint.smt2",
        "T3, backward footprint: up to 12 regions, all bits, all paths",
        """
Reverse-mode differentiation of a chain of layers y' = f(y, w): the gradient of a layer's output is wanted
iff it is used: by the layer's weight half, which runs iff the layer is trained, or by its input half, which
runs iff the gradient of its input is wanted. Nobody wants that of the data. A layer that the microbatch
lacks does nothing. Then for each region on the path, (i) the gradient crosses its left border iff a layer
before it is trained; (ii) it runs a backward iff a layer at or before its end is, and the input half of its
last layer works iff one before that layer is; (iii) its weight half works iff it owns a trained layer, and
the gradient such a layer needs is wanted. What a region receives, the next one on the path sends: recv(s) =
back(s) = cross(next) = send(next) (spec/footprint.md).""",
        "QF_UF",
        tuple(lines),
        tuple(parts),
    )


CHAIN = (
    "(declare-fun present (Int) Bool)",
    "(declare-fun trained (Int) Bool)",
    "; the gradient of the output of layer l is wanted; layer 0 are the data",
    "(declare-fun wanted (Int) Bool)",
    "; the layers 1..n hold one that is present and trained",
    "(define-fun some ((n Int)) Bool (exists ((j Int)) (and (<= 1 j) (<= j n) (present j) (trained j))))",
)
START = "(assert (not (wanted 0)))"
STEP = "(assert (= (wanted (+ n 1)) (or (and (present (+ n 1)) (trained (+ n 1))) (wanted n))))"
LEMMA = "(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))"


def state_footprint_of_any_number() -> File:
    stage = (
        "; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is",
        *(f"(declare-const {x} Int)" for x in ("a", "b", "l", "last")),
        "(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))",
        "(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))",
        LEMMA,
    )
    halves = "(exists ((j Int)) (and (< a j) (<= j b) (present j) (or (wanted (- j 1)) (trained j))))"
    parts = (
        Lemma(
            "wanted(n) = some(n) for every n >= 0, by induction: n = 0", (START,), "(= (wanted 0) (some 0))"
        ),
        Lemma(
            "from n to n + 1",
            ("(declare-const n Int)", "(assert (<= 0 n))", STEP, "(assert (= (wanted n) (some n)))"),
            "(= (wanted (+ n 1)) (some (+ n 1)))",
        ),
        Lemma(
            "(i): what crosses the left border is the gradient of the output of layer a",
            stage,
            "(= (wanted a) (some a))",
        ),
        Lemma(
            "(ii): if a half of a layer of the stage runs, a layer at or before its end is trained",
            (*stage, f"(assert {halves})"),
            "(some b)",
        ),
        Lemma(
            "(ii): and the reverse, with the trained layer j before the stage or in it",
            (*stage, "(declare-const j Int)", "(assert (and (<= 1 j) (<= j b) (present j) (trained j)))"),
            "(ite (<= j a) (and (present l) (wanted (- l 1))) (and (< a j) (<= j b) (present j) (trained "
            "j)))",
        ),
        Lemma(
            "(ii): the input half of the last layer that is present runs iff a layer before it is trained",
            stage,
            "(= (wanted (- last 1)) (some (- last 1)))",
        ),
        Lemma(
            "(iii): the weight half works iff the stage owns a trained layer, j; the gradient that it "
            "needs is wanted, and the stage runs a backward",
            (*stage, "(declare-const j Int)", "(assert (and (< a j) (<= j b) (present j) (trained j)))"),
            "(and (wanted j) (wanted b))",
        ),
        Lemma(
            "both ends of a border give one answer: recv(s) = back(s) asks the layers up to b, "
            "send(next) = cross(next) those up to c, and those between are absent",
            (
                *stage,
                "(declare-const c Int)",
                "(assert (<= b c))",
                "(assert (forall ((j Int)) (=> (and (< b j) (<= j c)) (not (present j)))))",
            ),
            "(= (some b) (some c))",
        ),
    )
    return File(
        "t3-footprint-any.smt2",
        "T3, backward footprint: any number of layers and stages",
        """
As t3-footprint.smt2, by induction over the layers: wanted(0) = false, wanted(n+1) = (present and
trained)(n+1) or wanted(n). A stage is any interval of layers with one that is present, so this covers every
cut and every refinement of it.""",
        "UFLIA",
        CHAIN,
        parts,
    )


def state_refinement() -> File:
    lines, parts = [define("cross.1", "false"), define("slab.1", "false")], []
    slab = "slab.1"
    for s in range(1, REGIONS + 1):
        bits = [f"trained.{s}{x}" for x in "abc"]
        lines += [
            "",
            f"; region {s}, and its slabs a, b, c",
            *(f"(declare-const {bit} Bool)" for bit in bits),
        ]
        lines += [define(f"cross.{s + 1}", f"(or cross.{s} {' '.join(bits)})")]
        for x in "abc":
            name = f"slab.{s}{x}" if x != "c" else f"slab.{s + 1}"
            lines.append(define(name, f"(or {slab} trained.{s}{x})"))
            slab = name
        lines += [define(f"recv.{s}", f"(or cross.{s} {' '.join(bits)})")]
        parts.append(
            Lemma(
                f"{s} region{'s' * (s > 1)}",
                (),
                conjoin(
                    [f"(= cross.{i} slab.{i})" for i in range(1, s + 1)]
                    + [f"(= recv.{i} cross.{i + 1})" for i in range(1, s)]
                ),
            )
        )
    return File(
        "t3-refinement.smt2",
        "T3, T4, refinement: up to 12 regions of three slabs",
        """
Splitting a region into slabs changes no answer at a seam: the gradient crosses the border between two
regions iff it crosses it in the chain of their slabs. And recv(s) = send(s+1): the stage that receives asks
for a trained layer at or before its end, the one that sends for one before it.""",
        "QF_UF",
        tuple(lines),
        tuple(parts),
    )


def state_refinement_of_any_number() -> File:
    common = (
        *CHAIN,
        "; region r are the layers start(r)+1 .. start(r+1)",
        "(declare-fun start (Int) Int)",
        "; the gradient crosses the left border of region r: as seen from regions alone",
        "(declare-fun cross (Int) Bool)",
        "(define-fun owns ((r Int)) Bool (exists ((j Int)) (and (< (start r) j) (<= j (start (+ r 1))) "
        "(present j) (trained j))))",
    )
    step = (
        "(declare-const r Int)",
        "(assert (<= 0 r))",
        "(assert (<= 0 (start r) (start (+ r 1))))",
        LEMMA,
        "(assert (= (cross (+ r 1)) (or (cross r) (owns r))))",
        "(assert (= (cross r) (wanted (start r))))",
    )
    parts = (
        Lemma(
            "cross(r) = wanted(start(r)) for every r >= 0, by induction: r = 0",
            (START, "(assert (= (start 0) 0))", "(assert (not (cross 0)))"),
            "(= (cross 0) (wanted (start 0)))",
        ),
        Lemma(
            "from r to r + 1: if it crosses for regions, it does for layers",
            (*step, "(assert (cross (+ r 1)))"),
            "(some (start (+ r 1)))",
        ),
        Lemma(
            "and the reverse, with the trained layer j before the region or in it",
            (
                *step,
                "(declare-const j Int)",
                "(assert (and (<= 1 j) (<= j (start (+ r 1))) (present j) (trained j)))",
            ),
            "(ite (<= j (start r)) (some (start r)) (owns r))",
        ),
    )
    return File(
        "t3-refinement-any.smt2",
        "T3, T4, refinement: any number of regions, of any number of slabs or layers",
        """
As t3-refinement.smt2: cross(0) = false, cross(r+1) = cross(r) or region r owns a trained layer, against the
chain of layers. The lemma of t3-footprint-any.smt2, wanted(n) = some(n), is assumed.""",
        "UFLIA",
        common,
        parts,
    )


def state_invariance() -> File:
    """One microbatch of a chain of regions, each with a bit."""
    lines, parts = (
        [
            "; the gradient of a region's output, as reverse-mode differentiation finds it "
            "(t3-footprint.smt2)",
            define("wanted.0", "false"),
        ],
        [],
    )
    waits: list[tuple[str, str]] = []
    trained: list[str] = []
    kinds = ("F", "I", "W", "SEND_B", "RECV_B", "REDUCE")
    needs: list[tuple[str, str]] = []
    right: list[str] = []
    for s in range(1, REGIONS + 1):
        before = list(trained)
        trained.append(f"trained.{s}")
        lines += [
            "",
            f"; region {s}: gates and times",
            f"(declare-const trained.{s} Bool)",
            define(f"wanted.{s}", f"(or wanted.{s - 1} trained.{s})"),
        ]
        gates = {
            "F": "true",
            "I": disjoin(trained),
            "W": f"trained.{s}",
            "SEND_B": disjoin(before),
            "RECV_B": disjoin(trained),
            "REDUCE": f"trained.{s}",
        }
        for kind in kinds:
            lines += [define(f"has.{kind}.{s}", gates[kind]), f"(declare-const time.{kind}.{s} Int)"]
        new = [
            (f"F.{s}", f"I.{s}"),
            (f"I.{s}", f"W.{s}"),
            (f"W.{s}", f"REDUCE.{s}"),
            (f"I.{s}", f"SEND_B.{s}"),
        ]
        if s > 1:
            new += [
                (f"F.{s - 1}", f"F.{s}"),
                (f"SEND_B.{s}", f"RECV_B.{s - 1}"),
                (f"RECV_B.{s - 1}", f"I.{s - 1}"),
            ]
            needs += [
                (f"I.{s - 1}", f"RECV_B.{s - 1}"),
                (f"RECV_B.{s - 1}", f"SEND_B.{s}"),
                (f"SEND_B.{s}", f"RECV_B.{s - 1}"),
                (f"SEND_B.{s}", f"I.{s}"),
                (f"I.{s - 1}", f"I.{s}"),
            ]
        waits += new
        needs += [
            (f"W.{s}", f"I.{s}"),
            (f"W.{s}", f"REDUCE.{s}"),
            (f"REDUCE.{s}", f"W.{s}"),
            (f"I.{s}", f"F.{s}"),
        ]
        right += [
            f"(= has.SEND_B.{s} wanted.{s - 1})",
            f"(= has.I.{s} has.RECV_B.{s} wanted.{s})",
            f"(= has.W.{s} has.REDUCE.{s} trained.{s})",
        ]
        assumed = tuple(f"(assert (< time.{a} time.{b}))" for a, b in waits)
        kept = [f"(=> (and has.{a} has.{b}) (< time.{a} time.{b}))" for a, b in waits]
        whole = [f"(=> has.{a} has.{b})" for a, b in needs]
        parts.append(
            Lemma(
                f"{s} region{'s' * (s > 1)}: waits go forward, nothing present needs what is absent, "
                "presence is the footprint",
                ("; the times of a certificate of the fully trained program", *assumed),
                conjoin(kept + whole + right),
            )
        )
    order = []
    for n in range(2, REGIONS + 1):
        declared = tuple(
            x
            for i in range(1, n + 1)
            for x in (f"(declare-const present.{i} Bool)", f"(declare-const place.{i} Int)")
        )
        shares = [
            (
                f"(ite (and present.{j} (< place.{j} place.1)) 1 0)",
                f"(ite (and present.{j} (< place.{j} place.2)) 1 0)",
            )
            for j in range(1, n + 1)
        ]
        counts = (
            define("new.1", f"(+ {' '.join(a for a, _ in shares)})", "Int"),
            define("new.2", f"(+ {' '.join(b for _, b in shares)})", "Int"),
        )
        each = tuple(f"(<= {a} {b})" for a, b in shares)
        given = "(assert (and present.1 present.2 (< place.1 place.2)))"
        order.append(
            Lemma(
                f"a list of {n} operations, any of them deleted: two that stay keep their order. New "
                "places count what stands before;\n"
                "each operation that stands before the first stands before the second",
                (*declared, *counts, given),
                conjoin([*each, "(< new.1 new.2)"]),
            )
        )
    return File(
        "t4-invariance.smt2",
        "T4, schedule invariance: up to 12 regions, all bits",
        """
One order serves every freezing. The operations of a microbatch in each region are F, I, W, SEND_B (the
gradient to the region before), RECV_B (that of its own output) and REDUCE, and a freezing keeps those whose
gate is open. Times that are a certificate of the fully trained program are one of every freezing; and in a
list of operations deleting some moves none.""",
        "QF_LIA",
        tuple(lines),
        (*parts, *order),
    )


def state_invariance_of_any_number() -> File:
    common = (
        "; the operations of any number of skeletons: a rank, a place in its list, a time; which of them "
        "a freezing keeps",
        "(declare-sort Op 0)",
        "(declare-fun rank (Op) Int)",
        "(declare-fun place (Op) Int)",
        "(declare-fun time (Op) Int)",
        "(declare-fun present (Op) Bool)",
        "(declare-fun needs (Op Op) Bool)",
        "(define-fun waits ((a Op) (b Op)) Bool (or (and (= (rank a) (rank b)) (< (place a) (place b))) "
        "(needs b a)))",
        "; the number of operations that stay among the first n of one rank's list",
        "(declare-fun there (Int) Bool)",
        "(declare-fun kept (Int) Int)",
        "(declare-const m Int)",
        "(declare-const n Int)",
        "(define-fun counted ((i Int)) Bool (= (kept (+ i 1)) (+ (kept i) (ite (there i) 1 0))))",
        *CHAIN[:2],
        CHAIN[-1],
    )
    certificate = (
        "(assert (forall ((a Op) (b Op)) (! (=> (waits a b) (< (time a) (time b))) :pattern ((time a) "
        "(time b)))))"
    )
    parts = (
        Lemma(
            "deleting moves nothing: for there(m) and m < n, kept(m) < kept(n), by induction over n: n = "
            "m + 1",
            ("(assert (and (there m) (counted m)))",),
            "(< (kept m) (kept (+ m 1)))",
        ),
        Lemma(
            "from n to n + 1",
            ("(assert (and (< m n) (counted n) (< (kept m) (kept n))))",),
            "(< (kept m) (kept (+ n 1)))",
        ),
        Lemma(
            "what deletes and does not move has no wait that the fully trained program lacks: its "
            "certificate holds for what is left",
            (
                certificate,
                "(declare-fun new_place (Op) Int)",
                "(assert (forall ((a Op) (b Op)) (! (=> (and (present a) (present b) (= (rank a) (rank "
                "b))) (= (< (new_place a) (new_place b)) (< (place a) (place b))))"
                " :pattern ((new_place a) (new_place b)))))",
                "(declare-const a Op)",
                "(declare-const b Op)",
                "(assert (and (present a) (present b)))",
                "(assert (or (and (= (rank a) (rank b)) (< (new_place a) (new_place b))) (needs b a)))",
            ),
            "(< (time a) (time b))",
        ),
        Lemma(
            "nothing present needs what is absent: the gates of a stage that ends with layer n, and of "
            "one that ends later, with layer m",
            (
                "(assert (and (<= 0 n) (<= n m)))",
                "(declare-const j Int)",
                "(assert (and (<= 1 j) (<= j n) (present_layer j) (trained j)))",
            ),
            "(exists ((i Int)) (and (<= 1 i) (<= i m) (present_layer i) (trained i)))",
        ),
        Lemma(
            "freezing more opens no gate",
            (
                "(declare-fun frozen (Int) Bool)",
                "(declare-const j Int)",
                "(assert (and (<= 1 j) (<= j n) (present_layer j) (trained j) (not (frozen j))))",
            ),
            "(some n)",
        ),
    )
    renamed = tuple(
        line.replace("(declare-fun present (Int)", "(declare-fun present_layer (Int)").replace(
            "(present j)", "(present_layer j)"
        )
        for line in common
    )
    return File(
        "t4-invariance-any.smt2",
        "T4, schedule invariance: any number of regions, operations and skeletons",
        """
As t4-invariance.smt2. Places in a rank's list, deletion and certificates for lists of any length; gates for
chains of any length.""",
        "UFLIA",
        renamed,
        parts,
    )


def state_memory() -> File:
    kept = (
        "(define-fun least ((a Int) (b Int)) Int (ite (<= a b) a b))",
        "; what one layer keeps of one microbatch: from F until X its activation, unless X makes it "
        "recomputed, and from then until W a part of it.",
        "; g: it, or one before it, is trained; t: it is trained. phase 1: F has run and X has not, 2: X "
        "runs, 3: X has run and W has not",
        "(define-fun keeps ((phase Int) (recomputed Bool) (g Bool) (t Bool) (activation Int) (part Int)) Int",
        "  (ite (not g) 0 (ite (= phase 1) (ite recomputed 0 activation) (ite (= phase 2) activation "
        "(ite (and "
        "(= phase 3) t) (least part activation) 0)))))",
    )
    layer = (
        "(declare-const phase Int)",
        *(f"(declare-const {x} Int)" for x in ("activation", "part", "weights", "state", "output")),
        *(f"(declare-const {x} Bool)" for x in ("recomputed", "g", "g_all", "t", "t_all")),
        "(assert (and (<= 0 activation) (<= 0 part) (<= 0 weights) (<= 0 state) (<= 0 output)))",
        "; frozen layers: a bit that is set is set when all are trained",
        "(assert (and (=> g g_all) (=> t t_all)))",
    )
    parts = [
        Lemma(
            "a stash",
            layer,
            "(<= 0 (keeps phase recomputed g t activation part) (keeps phase recomputed g_all t_all "
            "activation part))",
        ),
        Lemma(
            "a gradient that crosses, the input of recomputed layers, a workspace whose operation is there",
            layer,
            "(<= 0 (ite g output 0) (ite g_all output 0))",
        ),
        Lemma(
            "weights, gradients and optimizer state",
            layer,
            "(<= (+ weights (ite t state 0)) (+ weights (ite t_all state 0)))",
        ),
        Lemma(
            "any number of them, by induction: none",
            (
                "(declare-fun sum (Int) Int)",
                "(declare-fun sum_all (Int) Int)",
                "(assert (= (sum 0) (sum_all 0) 0))",
            ),
            "(<= (sum 0) (sum_all 0))",
        ),
        Lemma(
            "from n to n + 1",
            (
                "(declare-fun sum (Int) Int)",
                "(declare-fun sum_all (Int) Int)",
                *(f"(declare-const {x} Int)" for x in ("n", "x", "x_all")),
                "(assert (and (= (sum (+ n 1)) (+ (sum n) x)) (= (sum_all (+ n 1)) (+ (sum_all n) "
                "x_all)) (<= x x_all) (<= (sum n) (sum_all n))))",
            ),
            "(<= (sum (+ n 1)) (sum_all (+ n 1)))",
        ),
        Lemma(
            "the peak: moments of what is left are moments of the fully trained program",
            (
                "(declare-sort Row 0)",
                "(declare-fun live (Row) Int)",
                "(declare-fun live_all (Row) Int)",
                "(declare-fun present (Row) Bool)",
                "(declare-const peak Int)",
                "(declare-const row Row)",
                "(assert (forall ((r Row)) (! (<= (live r) (live_all r)) :pattern ((live r)))))",
                "(assert (forall ((r Row)) (! (<= (live_all r) peak) :pattern ((live_all r)))))",
                "(assert (present row))",
            ),
            "(<= (live row) peak)",
        ),
    ]
    for k in (1, 4, REGIONS):
        names = range(1, k + 1)
        lines = [
            f"(declare-const {x}.{i} {sort})"
            for i in names
            for x, sort in (
                ("activation", "Int"),
                ("part", "Int"),
                ("phase", "Int"),
                ("recomputed", "Bool"),
                ("trained", "Bool"),
            )
        ]
        lines += [f"(assert (and (<= 0 activation.{i}) (<= 0 part.{i})))" for i in names]
        lines += [define(f"g.{i}", disjoin(f"trained.{j}" for j in range(1, i + 1))) for i in names]
        each = [
            (
                f"(keeps phase.{i} recomputed.{i} g.{i} trained.{i} activation.{i} part.{i})",
                f"(keeps phase.{i} recomputed.{i} true true activation.{i} part.{i})",
            )
            for i in names
        ]
        less = [f"(<= {a} {b})" for a, b in each]
        parts.append(
            Lemma(
                f"a chain of {k} layer{'s' * (k > 1)}: each in a phase of its own, all bits, all sizes",
                tuple(lines),
                conjoin(less),
            )
        )
    return File(
        "t6-memory.smt2",
        "T6, freezing never raises a rank's peak: any sizes, any number of layers and microbatches",
        """
Freezing deletes rows and moves none, so what is live at a row that stays is what was live there, part by
part, with what frozen layers no longer keep left out (spec/memory.md). Whatever the sizes, each part is at
most what it is with all layers trained; so is their sum, and the peak.""",
        "UFLIA",
        kept,
        tuple(parts),
    )


def state_owner_maps() -> File:
    lines = (
        "; ranks 0..P-1, microbatches 0..M-1 in the order in which the first stage after the region runs "
        "their forwards; `turn` is that of its input",
        "; gradients. first: the rank of that stage. Any map from microbatches to ranks",
        "(declare-const P Int)",
        "(declare-const M Int)",
        "(declare-const first Int)",
        "(declare-fun owner (Int) Int)",
        "(declare-fun turn (Int) Int)",
        "; the backbone: times from 0 to T - 1 that are a certificate of it alone",
        "(declare-sort Event 0)",
        "(declare-fun time (Event) Int)",
        "(declare-fun waits (Event Event) Bool)",
        "(declare-fun rank (Event) Int)",
        "(declare-const T Int)",
        "(assert (and (<= 1 P) (<= 1 M) (<= 0 first) (< first P) (<= 0 T)))",
        "(assert (forall ((m Int)) (! (and (<= 0 (owner m)) (< (owner m) P)) :pattern ((owner m)))))",
        "(assert (forall ((m Int)) (! (=> (and (<= 0 m) (< m M)) (and (<= 0 (turn m)) (< (turn m) M))) "
        ":pattern ((turn m)))))",
        "(assert (forall ((e Event)) (! (and (<= 0 (time e)) (< (time e) T)) :pattern ((time e)))))",
        "(assert (forall ((d Event) (e Event)) (! (=> (waits d e) (< (time d) (time e))) :pattern "
        "((waits d e)))))",
        "; times that do not ask who owns what: encodes, hand-overs, the backbone, gradients handed "
        "back, the region's backwards",
        "(define-fun encode ((m Int)) Int m)",
        "(define-fun hand_over ((m Int)) Int (+ M m))",
        "(define-fun later ((e Event)) Int (+ (* 2 M) (time e)))",
        "(define-fun hand_back ((m Int)) Int (+ (* 2 M) T (turn m)))",
        "(define-fun decode ((m Int)) Int (+ (* 3 M) T (turn m)))",
        "; a hand-over takes part on its owner and on the first stage's rank, unless they are one: then "
        "there is none",
        "(define-fun away ((m Int)) Bool (distinct (owner m) first))",
        "(define-fun on ((m Int) (r Int)) Bool (or (= (owner m) r) (= first r)))",
        "(declare-const m Int)",
        "(declare-const n Int)",
        "(declare-const r Int)",
        "(declare-const e Event)",
        "(declare-const d Event)",
        "(assert (and (<= 0 m) (< m M) (<= 0 n) (< n M) (<= 0 r) (< r P)))",
    )
    before = "(assert (< m n))"
    turned = "(assert (< (turn m) (turn n)))"
    parts = (
        make_lemma(
            "an owner encodes in that order",
            before,
            "(assert (and (= (owner m) r) (= (owner n) r)))",
            "(< (encode m) (encode n))",
        ),
        make_lemma(
            "then it hands over: every encode of a rank comes before every hand-over it takes part in",
            "(assert (and (= (owner m) r) (away n) (on n r)))",
            "(< (encode m) (hand_over n))",
        ),
        make_lemma(
            "a rank's hand-overs stand in the same order at both of their ends",
            before,
            "(assert (and (away m) (away n) (on m r) (on n r)))",
            "(< (hand_over m) (hand_over n))",
        ),
        make_lemma(
            "the backbone comes after the rank's encodes and hand-overs, and after what it consumes",
            "(assert (= (rank e) r))",
            "(assert (on m r))",
            "(and (< (encode m) (later e)) (< (hand_over m) (later e)))",
        ),
        make_lemma("its own waits are those it had", "(assert (waits d e))", "(< (later d) (later e))"),
        make_lemma(
            "gradients go back after the rank's part of the backbone, and after what makes them",
            "(assert (= (rank e) r))",
            "(assert (on m r))",
            "(and (< (later e) (hand_back m)) (< (later e) (decode m)))",
        ),
        make_lemma(
            "a rank hands back in the order of the input gradients at both ends",
            turned,
            "(assert (and (away m) (away n) (on m r) (on n r)))",
            "(< (hand_back m) (hand_back n))",
        ),
        make_lemma(
            "every hand-back of a rank comes before every backward of the region on it",
            "(assert (and (away m) (on m r) (= (owner n) r)))",
            "(< (hand_back m) (decode n))",
        ),
        make_lemma(
            "an owner runs the backwards in that order",
            turned,
            "(assert (and (= (owner m) r) (= (owner n) r)))",
            "(< (decode m) (decode n))",
        ),
        Lemma(
            "a backward of the region comes after its forward and its hand-over",
            (),
            "(and (< (encode m) (decode m)) (< (hand_over m) (decode m)))",
        ),
    )
    return File(
        "t8-owner-maps.smt2",
        "T8, transpose with hand-overs as a prefix: every owner map, any P and M, before any valid backbone",
        """
The owner map is an uninterpreted function. A hand-over is one event of its two ranks and each rank does
everything in its order: the waits of `blocking`, which contain those of the other models. All of them go
forward in times that are the same for every owner map; so none of these programs waits in a cycle.""",
        "UFLIA",
        lines,
        parts,
    )


STATEMENTS = (
    state_footprint,
    state_footprint_of_any_number,
    state_refinement,
    state_refinement_of_any_number,
    state_invariance,
    state_invariance_of_any_number,
    state_memory,
    state_owner_maps,
)


def build_files() -> list[File]:
    return [state() for state in STATEMENTS]


if __name__ == "__main__":
    for made in build_files():
        (HERE / made.name).write_text(write_text(made), encoding="utf-8")
        print(f"wrote {made.name}: {len(made.lemmas)} queries")
