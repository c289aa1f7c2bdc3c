"""The 31 PyTorch CSVs of tests/data/torch/cases: the verdict and message of each, and what PyTorch's own
loader makes of it.
"""

import json
import re
from pathlib import Path

import pytest

from interlock.check import certificates as certificate_files
from interlock.check.files import check_file
from interlock.interchange.torch_csv import CsvOptions
from interlock.kernel import verify
from interlock.load import Question
from interlock.rules.waits import MODELS

FOLDER = Path(__file__).parent / "data" / "torch" / "cases"
CASES = {
    c["file"].split("_")[0]: c
    for c in json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))["cases"]
}
ZBV = "ZBVZeroBubble"  # the file that PyTorch's defer_pp_recv made

VALID = dict.fromkeys(MODELS, "valid")
INVALID = dict.fromkeys(MODELS, "invalid")
CROSSING = {"buffered": "valid", "edge": "valid", "pair": "invalid", "rank": "invalid", "blocking": "invalid"}

# m00 and m13 are correct orders that run on gloo, which buffers, and cases.json calls them valid without
# naming a model. They hold
# the crossing that m07 was made for: rank 0 runs 0SEND_F1, then 0RECV_B0, rank 1 runs 1SEND_B0, then
# 1RECV_F1. Where a send ends with
# its receive and both directions share a queue, each rank stays in its send: as with m07, which cases.json
# expects to be valid
# under `buffered` and `edge` only, so the models say the same of all three.
EXPECT = {"m00": CROSSING, "m13": CROSSING, "m07": CROSSING}
PLAIN = {"valid": VALID, "invalid": INVALID}

FROZEN_0, ALL_FROZEN, LOOP = (
    CsvOptions(frozen=frozenset({0})),
    CsvOptions(frozen="all"),
    CsvOptions(placement="loop"),
)

# the code of the first error, and what the findings say
SAY = {
    ZBV: ("IL403", ["wrong data", "nothing stops", "an activation and a gradient are exchanged"]),
    "c02": (
        "IL307",
        [
            "a cyclic wait across ranks 0 and 1",
            "needs 1B0, which rank 1 runs only after 1F1",
            "needs 0F1, which rank 0 runs only after 0B0",
        ],
    ),
    "c03": ("IL301", ["backward before its forward"]),
    "c05": ("IL303", ["the forward of microbatch 0 on stage 0 is listed twice"]),
    "c07": ("IL306", ["microbatch 9 where 0 to 3 are asked"]),
    "c08": ("IL304", ["0F0 is on rank 1, but stage 0 lies on rank 0: one stage on two ranks"]),
    "c11": (
        "IL305",
        [
            "the backward of microbatch 0 on stage 0 is listed twice",
            "microbatch 3 has no backward on stage 0",
        ],
    ),
    "c15": ("IL301", ["2W0 runs before 2I0"]),
    "m00": ("IL402", ["ranks 0 and 1 wait for each other"]),
    "m01": ("IL401", ["1RECV_F2 is missing on rank 1: a send without its receive"]),
    "m03": ("IL401", ["0SEND_F0 is listed twice: a send without its receive"]),
    "m04": ("IL403", ["wrong data", "exchanged on a channel without tags"]),
    "m07": (
        "IL402",
        [
            "wait for each other",
            "rank 0 sends 0F1; rank 1 receives it only after",
            "which rank 0 receives only after its own send",
        ],
    ),
    "m08": ("IL308", ["there is no reduction of the gradients of stage 0"]),
    "m10": ("IL309", ["comes after 0REDUCE, the reduction of its parameters"]),
    "m13": ("IL402", ["ranks 0 and 1 wait for each other"]),
    "m15": (
        "IL403",
        ["wrong data", "0SEND_F0 is sent 2 times where 1 is asked", "what 1RECV_F1 asks for is never sent"],
    ),
    "m19": ("IL403", ["wrong data", "an activation and a gradient are exchanged"]),
    "m20": ("IL401", ["stage 0 receives an activation from nowhere"]),
    "n02": ("IL601", ["microbatch 0 has no backward on stage 0", "or declare what is frozen"]),
    "n04": ("IL601", ["has no backward on stage 0", "or declare what is frozen"]),
}
# n01 is invalid for the target torch only (IL801, losses by position): tests/rules/test_targets.py
VALID_ALONE = ["c00", "c19", "c20", "c28", "f01", "m22", "n01", "n08"]
SYNTAX = {
    "c14": ("IL108", 1, 5, ["`xyz` follows the operation `0F1` in one cell"]),
    "c22": ("IL109", 1, 1, ["line 1 is a header, not a rank"]),
}


def run(name: str, csv: CsvOptions = CsvOptions()):
    file = FOLDER / CASES[name]["file"]
    return check_file(file.name, file.read_bytes(), Question(models=MODELS, csv=csv))


def checked(name: str, csv: CsvOptions = CsvOptions()):
    result = run(name, csv)
    assert not result.errors
    [found] = result.checked
    return found, result


def verdicts(found) -> dict[str, str]:
    return {a.model: a.verdict.value for a in found.answers}


def said(found) -> str:
    return "\n".join(
        "\n".join([f.message, *(m.label for m in f.marks), f.help]) for a in found.answers for f in a.findings
    )


def expected(name: str) -> dict[str, str]:
    """Without options. `expect` of cases.json starts with the verdict, except where it depends on what is
    declared.
    """
    if name in EXPECT:
        return EXPECT[name]
    return INVALID if name in ("n02", "n04") else PLAIN[CASES[name]["expect"].split(";")[0]]


def test_every_file_has_its_expectation():
    assert len(CASES) == 31 == len(list(FOLDER.glob("*.csv")))
    assert set(SAY) | set(VALID_ALONE) | set(SYNTAX) == set(CASES)


@pytest.mark.parametrize("name", [n for n in CASES if n not in SYNTAX])
def test_verdict_and_message(name, tmp_path):
    found, result = checked(name)
    assert verdicts(found) == expected(name)
    for answer in found.answers:
        if answer.verdict.value == "invalid":
            code, patterns = SAY[name]
            assert answer.errors[0].code == code and answer.replay is not None
            assert all(re.search(p, said(found)) for p in patterns), said(found)
        else:
            assert not answer.errors
    for path in certificate_files.write(tmp_path, [result]):
        assert all(j.accepted for j in verify(certificate_files.read(path)))


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax(name):
    code, line, column, patterns = SYNTAX[name]
    result = run(name)
    [error] = result.errors
    span = error.marks[0].span
    source = result.sources.of(span.at)
    offset = span.at - source.base
    before = source.text[:offset]
    assert (error.code, before.count("\n") + 1, offset - before.rfind("\n")) == (code, line, column)
    assert all(re.search(p, error.message) for p in patterns)


def test_the_stash_of_all_i_then_all_w():
    found, _ = checked("c28")
    [note] = found.answers[0].findings
    assert (note.code, note.severity.value) == (
        "IL502",
        "note",
    ) and "weight-gradient stash of all 4 microbatches" in note.message


def test_work_of_a_frozen_stage_is_a_placeholder():
    found, _ = checked("f01", FROZEN_0)
    assert verdicts(found) == VALID
    kinds = {(f.code, f.severity.value) for f in found.answers[0].findings}
    assert kinds == {
        ("IL603", "warning")
    } and "0I0 is a placeholder, work that the footprint excludes" in said(found)


@pytest.mark.parametrize("name, options, note", [("n02", FROZEN_0, None), ("n04", ALL_FROZEN, "IL604")])
def test_what_is_frozen_needs_no_backward(name, options, note):
    found, _ = checked(name, options)
    assert verdicts(found) == VALID
    assert {f.code for a in found.answers for f in a.findings} == ({note} if note else set())


def test_forward_only_needs_every_stage_frozen():
    found, _ = checked("n04", FROZEN_0)
    assert verdicts(found) == INVALID and {f.code for f in found.answers[0].errors} == {"IL601"}


def test_a_declared_placement():
    found, _ = checked("c20", LOOP)
    assert verdicts(found) == INVALID
    assert {f.code for a in found.answers for f in a.errors} == {"IL304"}
    assert "3F0 is on rank 0, but stage 3 lies on rank 1" in said(found)
    assert "2F0 is on rank 1, but stage 2 lies on rank 0" in said(found)
    assert verdicts(checked("c20", CsvOptions(placement="vee"))[0]) == VALID


# ---- PyTorch itself -------------------------------------------------------------------------------


def loads(name: str) -> tuple[bool, str]:
    """Whether PyTorch's loader takes the file, with the runtime's own methods and no process group, and why
    not.
    """
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    file = FOLDER / CASES[name]["file"]
    runtime = object.__new__(_PipelineScheduleRuntime)
    runtime._stages, runtime.pipeline_order = [], {}
    runtime._defer_pp_recv = False
    runtime.pp_group_size = 2
    runtime._n_microbatches = 4
    runtime._num_stages = 1 + max(
        int(s) for s in re.findall(r"(?:^|[,(;])(\d+)[A-Z]", file.read_text(), re.M)
    )
    try:
        runtime._load_csv(str(file), format=file.name.split(".")[-2])
    except (AssertionError, ValueError, RuntimeError, KeyError) as error:
        return False, f"{type(error).__name__}: {error}"
    return True, ""


def test_what_pytorch_accepts_by_the_record():
    """Of those wrong under a model, 13 load without a word; so does n01, which is wrong for PyTorch alone."""
    wrong = [
        n
        for n, c in CASES.items()
        if c["expect"] == "syntax" or "invalid" in {*PLAIN.get(c["expect"], EXPECT.get(n, {})).values()}
    ]
    accepted = [n for n in wrong if CASES[n].get("torch_loader") == "accepts"]
    assert accepted == [
        "c05",
        "c07",
        "c11",
        "c14",
        "m01",
        "m03",
        "m04",
        "m07",
        "m08",
        "m10",
        "m15",
        "m19",
        "m20",
    ]
    silent = [
        n
        for n, c in CASES.items()
        if c["runs"] in ("wrong gradients, no error", "DIFFERENT from reference, no error")
    ]
    assert silent == [ZBV, "m04", "m08", "m10", "m15", "m19", "n01"]


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", CASES)
def test_what_pytorch_does(name):
    accepted, why = loads(name)
    record = CASES[name].get("torch_loader", "accepts")  # two have none: they ran
    assert (record == "accepts") == accepted, why
