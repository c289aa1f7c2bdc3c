"""OctoPipe results: the three forms give one program, times give the order, every error with its place."""

import json

import pytest

from command import interlock
from interlock.interchange.octopipe import read
from interlock.language.unparse import to_sched
from interlock.text.source import Sources
from work import grows_linearly

from .reading import VALID, refused, verdicts


def work(P=2, M=3, V=2, split=False) -> list[tuple]:
    """A result: (type, mb, stage, device, start, end), from a greedy simulation with F = 10, B = 20 (or b =
    10 and w = 10), a transfer 1.
    """
    S, ready, free, out = P * V, {}, [0] * P, []
    todo = {("f", m, s) for m in range(M) for s in range(S)} | {
        (k, m, s) for k in ("bw" if split else "b") for m in range(M) for s in range(S)
    }

    def before(k, m, s):
        return (
            ([("f", m, s - 1)] if s else [])
            if k == "f"
            else [("b", m, s)]
            if k == "w"
            else [("b", m, s + 1)]
            if s < S - 1
            else [("f", m, s)]
        )

    while todo:
        can = [
            (
                max([free[s % P]] + [ready[d] + (d[2] % P != s % P) for d in before(k, m, s)]),
                "bfw".index(k),
                m,
                -s,
                k,
            )
            for k, m, s in todo
            if all(d in ready for d in before(k, m, s))
        ]
        start, _, m, s, k = min(can)
        end = start + (10 if k in "fw" or split else 20)
        ready[k, m, -s], free[-s % P] = end, end
        todo.remove((k, m, -s))
        out.append((k, m, -s, -s % P, start, end))
    return out


def lines(result) -> str:
    return "".join(f"{k}_{m}_{s}_{d}, {a}, {b}\n" for k, m, s, d, a, b in result)


def rows(text, *beside):
    sources = Sources()
    p = read(
        sources.add("result.txt", text),
        partition=sources.add("partition.txt", beside[0]) if beside else None,
        placement=sources.add("placement.txt", beside[1]) if beside else None,
    ).program
    return [[p.show(i) for i in range(p.order.start[r], p.order.start[r + 1])] for r in range(p.ranks)]


@pytest.mark.parametrize("split", [False, True])
def test_a_result_is_a_valid_schedule(split):
    result = work(split=split)
    found = read(Sources().add("result.txt", lines(reversed(result))))
    assert (
        verdicts(to_sched(found.program, "a")) == VALID
        and found.program.inserted
        and found.program.reductions_inserted
    )
    names = {"f": "F", "b": "I" if split else "B", "w": "W"}
    assert rows(lines(reversed(result))) == [
        [f"{s}{names[k]}{m}" for k, m, s, d, a, b in sorted(result, key=lambda w: w[4]) if d == device]
        for device in (0, 1)
    ]
    assert [s.rank for s in found.program.stages] == [0, 1, 0, 1]


def test_three_forms_of_one_result():
    result = work()
    plain = rows(lines(result))
    for partition, placement in (
        ("[2, 3, 2, 1]", "[[0, 2], [1, 3]]"),
        ("2 3 2 1\n", "0 2\n1 3\n"),
        ("2,3,2,1", "0, 2\r\n1, 3\r\n"),
    ):
        assert rows(lines(result), partition, placement) == plain
    entries = [list(w) for w in result]
    assert (
        rows(
            json.dumps(
                {
                    "schedule": "octopipe",
                    "partition": [2, 3, 2, 1],
                    "placement": [[0, 2], [1, 3]],
                    "scheduling": entries,
                }
            )
        )
        == plain
    )
    head = (
        "# a result\nschedule: octopipe  # the only one\npartition: [2, 3,\n  2, 1]\nplacement:\n- [0, "
        "2]\n- [1, 3]\nscheduling:"
    )

    def item(w, a, b):
        return f"{a}{w[0]}, {', '.join(map(str, w[1:]))}{b}"

    assert rows(head + "".join("\n  - " + item(w, "[", "]") for w in result)) == plain
    assert rows(head + "".join("\n  - " + item(w, "(", ")") for w in result) + "\n") == plain
    assert rows(head + " [" + ", ".join(item(w, "(", ")") for w in result) + ",]\n") == plain


def test_times_may_have_decimals_and_work_without_duration_keeps_its_place():
    assert rows("f_0_0_0, 0, 0.25\nf_1_0_0, 0.25, 0.25\nb_0_0_0, 0.25, 1\nb_1_0_0, 1, 2\n") == [
        ["0F0", "0F1", "0B0", "0B1"]
    ]


def test_what_octopipe_does_not_check_is_found():
    text = lines(w for w in work() if w[:3] != ("b", 1, 2))
    assert set(verdicts(to_sched(read(Sources().add("result.txt", text)).program, "a")).values()) == {
        "invalid"
    }


LINE = "f_0_0_0, 0, 10\nb_0_0_0, 10, 30\n"
TEXTS = {
    "": ("IL106", "", "no forward"),
    "x": ("IL112", "x", "no work"),
    "f_0_0_0; 0, 1": ("IL112", "f_0_0_0; 0, 1", "no work"),
    "f_0_0_0, 0": ("IL112", "f_0_0_0, 0", "no work"),
    LINE + "g_0_0_0, 30, 31": ("IL112", "g_0_0_0, 30, 31", "does not exist"),
    "f_0_0_0, 5, 1": ("IL113", "f_0_0_0, 5, 1", "before it starts"),
    LINE.replace("0, 10, 30", "0, 9, 30"): ("IL113", "b_0_0_0, 9, 30", "overlap"),
    "f_0_0_999999, 5, 6": ("IL104", "f_0_0_999999, 5, 6", "4096"),
    "f_0_1_0, 0, 1": ("IL204", "f_0_1_0, 0, 1", "stage 0"),
    "f_99999999_0_0, 0, 1": ("IL104", "f_99999999_0_0, 0, 1", "10,000,000"),
    "scheduling:": ("IL112", ":", "ends where"),
    "scheduling: [": ("IL112", "[", "ends where"),
    "scheduling: []": ("IL106", "", "no forward"),
    "schedule: 1f1b\nscheduling: []": ("IL112", "1f1b", "`1f1b`"),
    "partition: [1]": ("IL112", "p", "no `scheduling`"),
    "scheduling: [(f, 0, 0, 0, 0, 1)]\nfoo: 3": ("IL112", "foo: 3", "expected a key"),
    "scheduling: [(f, 0, 0, 0, 0)]": ("IL112", "(f, 0, 0, 0, 0)", "5 parts"),
    "scheduling: [(f, 0, 0, 0, 0, x)]": ("IL112", "x", "a time"),
    "scheduling: [(f, 0, 0, -1, 0, 1)]": ("IL112", "-1", "negative"),
    "scheduling: []\nscheduling: []": ("IL112", "scheduling", "twice"),
    '{"scheduling": 3}': ("IL112", "3", "a list of work"),
    '{"schedulin": 3}': ("IL112", "3", "no part"),
    "scheduling:\n  - [f, 0, 0, 0, 0, 1\n  - [b": ("IL112", "-", "`,` or `]`"),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "placement": [[0], [0]]}': ("IL204", "0", "placed twice"),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "placement": [[1]]}': ("IL204", "[[1]]", "stage 0"),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "placement": []}': ("IL204", "[]", "no stage"),
    '{"scheduling": [["f", 0, 0, 1, 0, 1]], "placement": [[0]]}': (
        "IL113",
        '["f", 0, 0, 1, 0, 1]',
        "on device 1",
    ),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "placement": [[0, 1]]}': (
        "IL204",
        "[[0, 1]]",
        "no device runs it",
    ),
    '{"scheduling": [["f", 0, 1, 0, 0, 1]], "placement": [[0]]}': (
        "IL204",
        '["f", 0, 1, 0, 0, 1]',
        "no device",
    ),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "partition": [1, 2]}': ("IL204", "[1, 2]", "2 stages"),
    '{"scheduling": [["f", 0, 0, 0, 0, 1]], "partition": [0]}': ("IL205", "0", "0 layers"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_errors(text):
    code, at, says = TEXTS[text]
    found = refused(read, text)
    assert found[:2] == (code, at) and says in found[2], found


def test_the_work_grows_with_the_result(pytestconfig):
    def read_microbatches(M: int):
        text = "".join(
            f"f_{m}_0_0, {2 * m}, {2 * m + 1}\nb_{m}_0_0, {2 * m + 1}, {2 * m + 2}\n" for m in range(M)
        )
        assert len(read(Sources().add("x", text)).program.order) == 2 * M

    read_microbatches(50_000 if pytestconfig.getoption("--thorough") else 10_000)
    assert grows_linearly(read_microbatches, 1_000)


def test_the_command(tmp_path):
    (tmp_path / "result.txt").write_text(lines(work()))
    (tmp_path / "partition.txt").write_text("[2, 3, 2, 1]")
    (tmp_path / "placement.txt").write_text("[[0, 2], [1, 3]]")
    assert interlock("import", "result.txt", "--from", "octopipe", "-o", "a.sched", cwd=tmp_path).code == 0
    assert (
        (tmp_path / "a.sched")
        .read_text()
        .startswith("# partition: [2, 3, 2, 1], 8 layers\nschedule result {")
    )
    assert interlock("check", "a.sched", cwd=tmp_path).code == 0
    (tmp_path / "placement.txt").write_text("[[0, 1], [2, x]]")
    done = interlock("import", "result.txt", "--from", "octopipe", cwd=tmp_path)
    assert done.code == 2 and "placement.txt:1:14" in done.err
