"""What a certificate states beside its claims: rejected wherever the claims do not show it."""

import copy

import pytest

from interlock.kernel import judge, verify

from .build import claim, one_f_one_b, plain

MEMORY = {"capacity": [None, None], "gradient": [1, 1], "optimizer": [0, 1]}
ORDER = (
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
    " | 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1"
)
WRITTEN = plain(ORDER, stages=2, layers={s: {"activation": [5, 0]} for s in range(2)}, memory=MEMORY)
OVERFLOWING = WRITTEN | {"memory": MEMORY | {"capacity": [9, None]}}
INSERTED = one_f_one_b(2, 3)
STUCK = plain("send(1,x) recv(1,y) | send(0,y) recv(0,x)", stages=2, fragment=True)
WALK = {
    "claim": "invalid",
    "model": "pair",
    "walk": [
        [["op", 0], "queue", ["op", 1]],
        [["op", 1], "same", ["op", 2]],
        [["op", 2], "queue", ["op", 3]],
        [["op", 3], "same", ["op", 0]],
    ],
}
GROUPED = plain("{send(1,x)} | recv(0,x)", stages=2, fragment=True)
PEAKS, COUNTS = {"claim": "peak", "peaks": [10, 10]}, {"claim": "in_flight", "counts": [2, 2]}
FALSE_PEAKS = {"claim": "peak", "peaks": [0, 0]}
PAIR, EDGE = claim(WRITTEN, "pair"), claim(WRITTEN, "edge")
INVARIANT = PAIR | {"claim": "invariant", "bits": [0, 1]}


def statement_of(program, claims, **header):
    """The judgement of the statement, after one of each claim."""
    document = {"format": "interlock.certificate/1", "program": program, "claims": claims}
    judgements = verify(document | {"verdict": "valid", "models": ["pair"]} | header)
    assert len(judgements) == len(claims) + 1
    assert judgements[:-1] == verify(document)
    return judgements[-1]


def test_a_document_without_a_verdict_states_nothing():
    document = {"format": "interlock.certificate/1", "program": WRITTEN, "claims": [PAIR]}
    assert verify(document | {"models": 7, "limits": 7, "source": None}) == verify(document)
    assert len(verify(document)) == 1


@pytest.mark.parametrize(
    "claims, header",
    [
        ([PAIR], {}),
        ([INVARIANT], {}),
        ([PAIR, EDGE], {"models": ["edge", "pair"]}),
        ([PAIR, INVARIANT | {"model": "edge"} | {"times": EDGE["times"]}], {"models": ["edge", "pair"]}),
        ([PAIR, PEAKS, COUNTS], {"limits": {"peak": [10, None], "in_flight": [2, 2]}}),
        ([PAIR], {"limits": {"peak": None, "in_flight": [None, None]}}),
        ([PAIR], {"limits": {}}),
        ([PAIR, PEAKS], {"limits": {"in_flight": None}}),
        ([INVARIANT], {"limits": {"peak": [10, 10]}, "part": 2, "parts": 2}),
    ],
)
def test_valid(claims, header):
    said = statement_of(WRITTEN, claims, **header)
    assert said.accepted and said.reason == "the claims show that the program is valid", said


@pytest.mark.parametrize(
    "claims, header, sentence",
    [
        ([EDGE], {}, "valid under pair"),
        ([PAIR], {"models": ["pair", "rank"]}, "valid under rank"),
        (
            [PAIR | {"times": [0] * len(PAIR["times"])}],
            {},
            "no accepted claim says that the program is valid",
        ),
        ([PEAKS], {}, "no accepted claim says that the program is valid"),
        ([PAIR, WALK], {}, "a claim says invalid"),
        ([PAIR], {"limits": {"peak": [10, None]}}, "peak is limited"),
        ([PAIR, FALSE_PEAKS], {"limits": {"peak": [10, None]}}, "peak is limited"),
        ([PAIR, PEAKS], {"limits": {"peak": [9, None]}}, "a limit is exceeded"),
        ([PAIR, COUNTS], {"limits": {"in_flight": [None, 0]}}, "a limit is exceeded"),
        ([PAIR, PEAKS], {"limits": {"in_flight": [2, 2]}}, "in_flight is limited"),
        ([INVARIANT], {"limits": {"peak": [10, 10]}, "part": 1, "parts": 2}, "peak is limited"),
        ([INVARIANT, PEAKS], {"limits": {"peak": [9, 10]}, "part": 2, "parts": 2}, "a limit is exceeded"),
    ],
)
def test_not_valid(claims, header, sentence):
    said = statement_of(WRITTEN, claims, **header)
    assert not said.accepted and sentence in said.reason, said


def test_one_claim_serves_every_model_of_inserted_transfers():
    models = ["buffered", "edge", "pair", "rank", "blocking"]
    assert statement_of(INSERTED, [claim(INSERTED, "pair")], models=models).accepted
    assert statement_of(
        INSERTED, [claim(INSERTED) | {"claim": "invariant", "bits": [0]}], models=models
    ).accepted
    fault = {"claim": "invalid", "model": "pair", "fault": {"code": "IL303", "rows": []}}
    twice = plain("0F0 0F0 0B0", stages=1, inserted=True)
    assert statement_of(twice, [fault], verdict="invalid", models=["rank"]).accepted


def test_invalid():
    assert statement_of(STUCK, [WALK], verdict="invalid").accepted
    assert statement_of(STUCK, [WALK], verdict="invalid", models=["edge", "pair"]).accepted
    assert not statement_of(STUCK, [WALK], verdict="invalid", models=["blocking"]).accepted
    for program, code, models in ((OVERFLOWING, "IL501", ["rank"]), (GROUPED, "IL408", ["pair"])):
        fault = {"claim": "invalid", "model": "pair", "fault": {"code": code, "rows": []}}
        assert statement_of(program, [fault], verdict="invalid", models=models).accepted
    assert not statement_of(GROUPED, [fault], verdict="invalid", models=["rank"]).accepted
    assert not statement_of(STUCK, [WALK | {"walk": WALK["walk"][:1]}], verdict="invalid").accepted
    assert not statement_of(WRITTEN, [PAIR], verdict="invalid").accepted
    for counted, kind, over in ((PEAKS, "peak", [9, None]), (COUNTS, "in_flight", [None, 0])):
        assert statement_of(WRITTEN, [counted], verdict="invalid", limits={kind: over}).accepted
        assert not statement_of(WRITTEN, [counted], verdict="invalid", limits={kind: [10, 10]}).accepted
        assert not statement_of(WRITTEN, [PAIR], verdict="invalid", limits={kind: over}).accepted
    assert not statement_of(WRITTEN, [FALSE_PEAKS], verdict="invalid", limits={"peak": [-1, 0]}).accepted


HEADER = {
    "verdict": "valid",
    "models": ["pair"],
    "limits": {"peak": [10, None], "in_flight": None},
    "obligations": [
        {"obligation": "the program under pair", "claims": [0], "part": None},
        {"obligation": "peak", "claims": [0, 1], "part": 2},
    ],
    "part": 1,
    "parts": 2,
    "source": {"name": "a.sched", "sha256": "0123456789abcdef" * 4},
}
JUNK = [
    None,
    True,
    -1,
    0,
    3,
    10**30,
    0.5,
    float("nan"),
    "",
    "pair",
    "valid",
    "x" * 64,
    [],
    [0],
    [[]],
    [7],
    {},
    {"a": 1},
]
HARMLESS = [  # what may stand in these places as well
    (("verdict",), {"valid"}),
    (("models", 0), {"pair"}),
    (("limits",), {"{}", "{'a': 1}"}),
    (("limits", "peak"), {"None"}),
    (("limits", "peak", 0), {"None", str(10**30)}),
    (("limits", "peak", 1), {"None", str(10**30)}),
    (("limits", "in_flight"), {"None"}),
    (("obligations",), {"[]"}),
    (("parts",), {"3", str(10**30)}),
]


def places(x, path=()):
    yield path
    for key, value in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(value, (*path, key))


def with_junk(x, path, junk):
    if not path:
        return junk
    x = copy.copy(x)
    x[path[0]] = with_junk(x[path[0]], path[1:], junk)
    return x


def test_the_whole_header():
    assert statement_of(WRITTEN, [PAIR, PEAKS], **HEADER).accepted


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_the_header(junk):
    """It never raises, and accepts only what says the same or less."""
    harmless = dict(HARMLESS)
    for path in places(HEADER):
        if path and path[0] not in ("obligations", "source") or len(path) == 1:
            said = statement_of(WRITTEN, [PAIR, PEAKS], **with_junk(HEADER, path, junk))
            allowed = harmless.get(path, set())
            assert said.reason and said.accepted == (str(junk) in allowed), (path, junk, said)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"obligations": {}}, "obligations"),
        ({"obligations": [7]}, "obligations"),
        ({"obligations": [{"obligation": 7, "claims": [], "part": None}]}, "obligation's obligation"),
        ({"obligations": [{"obligation": "", "claims": [2], "part": None}]}, "obligation's claims"),
        ({"obligations": [{"obligation": "", "claims": [-1], "part": None}]}, "obligation's claims"),
        ({"obligations": [{"obligation": "", "claims": [True], "part": None}]}, "obligation's claims"),
        ({"obligations": [{"obligation": "", "claims": [0]}]}, "no field 'part'"),
        ({"obligations": [{"obligation": "", "claims": [0], "part": 0}]}, "obligation's part"),
        ({"obligations": [{"obligation": "", "claims": [0], "part": 3}]}, "obligation's part"),
        ({"part": 3}, "part"),
        ({"part": 0}, "part"),
        ({"parts": True}, "parts"),
        ({"source": {"name": "a.sched"}}, "sha256"),
        ({"source": {"name": None, "sha256": "0" * 64}}, "source's name"),
        ({"source": {"name": "", "sha256": "0" * 63 + "g"}}, "64 hex digits"),
        ({"source": {"name": "", "sha256": "0" * 64 + "\n"}}, "64 hex digits"),
        ({"models": ["pair", "pair"]}, "each once"),
        ({"models": []}, "models"),
        ({"models": ["fast"]}, "models"),
        ({"limits": {"peak": [10]}}, "entry for each rank"),
        ({"limits": {"peak": [10, -1]}}, "peak"),
        ({"limits": {"in_flight": [10, 0.5]}}, "in_flight"),
    ],
)
def test_malformed_headers(change, sentence):
    said = statement_of(WRITTEN, [PAIR, PEAKS], **HEADER | change)
    assert not said.accepted and sentence in said.reason, said


@pytest.mark.parametrize("key", HEADER)
def test_what_may_be_left_out(key):
    document = {"format": "interlock.certificate/1", "program": WRITTEN, "claims": [PAIR, PEAKS]} | HEADER
    del document[key]
    judgements = verify(document)
    if key == "verdict":
        assert len(judgements) == 2
    else:
        assert judgements[-1].accepted == (key not in ("models", "part", "parts")), judgements[-1]


def test_an_ill_formed_program_shows_nothing():
    said = statement_of(None, [PAIR])
    assert not said.accepted and said.reason.startswith("ill-formed program")


@pytest.mark.parametrize("counted", [PEAKS, COUNTS])
def test_the_model_of_a_count_is_a_known_one(counted):
    assert judge(WRITTEN, counted).accepted and judge(WRITTEN, counted | {"model": "rank"}).accepted
    for model in ("fast", None, 7, ["pair"]):
        assert judge(WRITTEN, counted | {"model": model}).reason == "unknown model"
