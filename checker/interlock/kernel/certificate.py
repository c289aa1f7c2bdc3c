"""A certificate as a whole: its claims, and the verdict that it states (spec/certificates.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

from interlock.kernel.fields import Fields, Malformed, require
from interlock.kernel.judge import Judge, Judgement
from interlock.kernel.waits import MODELS

COUNTS = {"peak": "peaks", "in_flight": "counts"}  # a kind of claim, and its field of numbers


@dataclass(frozen=True, slots=True)
class Statement:
    """What a certificate states that its claims show."""

    verdict: str
    models: list[str]
    limits: dict[str, list[int | None]]  # by kind of claim, and by rank
    part: int  # from 1


def verify(document: object) -> list[Judgement]:
    """One judgement a claim of a certificate, and one of its statement if it states a verdict.

    A certificate that is rejected as a whole has one judgement, and it is a rejection.
    """
    fields = Fields(document, "the certificate")
    if fields.values.get("format") != "interlock.certificate/1":
        return [Judgement(False, "the file's format is not interlock.certificate/1")]
    claims = fields.values.get("claims")
    if type(claims) is not list or not claims:
        return [Judgement(False, "the file makes no claims")]
    judge = Judge(fields.values.get("program"))
    judgements = [judge.judge(claim) for claim in claims]
    if "verdict" in fields.values:
        shown = [claim for claim, judgement in zip(claims, judgements) if judgement.accepted]
        judgements.append(_judge_statement(judge, fields, claims, shown))
    return judgements


def _judge_statement(
    judge: Judge, document: Fields, claims: list[object], shown: list[dict[str, object]]
) -> Judgement:
    """`shown`: the claims that were accepted."""
    try:
        program = judge.matched.program
        statement = _read_statement(document, program.ranks, len(claims))
        if statement.verdict == "valid":
            refuted = any(Fields(claim, "a claim").values.get("claim") == "invalid" for claim in claims)
            require(not refuted, "the verdict is valid, and a claim says invalid")
            _check_valid(statement, shown, program.inserted)
        else:
            _check_invalid(statement, shown, program.inserted)
    except Malformed as rejected:
        return Judgement(False, str(rejected))
    return Judgement(True, f"the claims show that the program is {statement.verdict}")


def _read_statement(document: Fields, ranks: int, claims: int) -> Statement:
    """What is stated beside the claims, all of it well-formed. Raises Malformed."""
    verdict, models = document.text("verdict"), document.texts("models")
    require(verdict in ("valid", "invalid"), "the verdict is neither valid nor invalid")
    known = models and len(set(models)) == len(models) and set(models) <= set(MODELS)
    require(known, "models does not list known models, each once")
    limits = Fields(document.values.get("limits", {}), "limits")
    require(limits.is_object, "limits is not an object")
    numbered = "part" in document.values or "parts" in document.values
    parts = document.integer("parts", 1) if numbered else inf
    part = document.integer("part", 1, parts + 1) if numbered else 1
    obligations = document.records("obligations", "an obligation") if "obligations" in document.values else []
    for obligation in obligations:
        obligation.text("obligation")
        obligation.integers("claims", 0, claims)
        if obligation.get("part") is not None:
            obligation.integer("part", 1, parts + 1)
    if "source" in document.values:
        source = Fields(document.values["source"], "the source")
        source.text("name")
        digest = re.fullmatch("[0-9a-fA-F]{64}", source.text("sha256"))
        require(digest, "the source's sha256 is not 64 hex digits")
    stated = {kind: limits.limits(kind, ranks) for kind in COUNTS if limits.values.get(kind) is not None}
    return Statement(verdict, models, stated, part)


def _check_valid(statement: Statement, shown: list[dict[str, object]], inserted: bool) -> None:
    """Every model is shown valid, what is limited is counted and within its limits. Raises Malformed.

    A part after the first may leave the counts to the first one.
    """
    models = [claim.get("model") for claim in shown if claim["claim"] in ("valid", "invariant")]
    require(models, "no accepted claim says that the program is valid")
    for model in statement.models:
        require(
            inserted or model in models, f"no accepted claim says that the program is valid under {model}"
        )
    counted = {claim["claim"] for claim in shown}
    for kind, limits in statement.limits.items():
        open_ = statement.part == 1 and kind not in counted and set(limits) != {None}
        require(not open_, f"{kind} is limited, and no accepted claim counts it")
    require(not _exceeds(statement, shown), "a limit is exceeded")


def _check_invalid(statement: Statement, shown: list[dict[str, object]], inserted: bool) -> None:
    """A claim says invalid under one of the models, or a limit is exceeded. Raises Malformed."""
    refuted = any(
        inserted
        or claim["model"] in statement.models
        or _is_of_every_model(Fields(claim.get("fault"), "the fault"))
        for claim in shown
        if claim["claim"] == "invalid"
    )
    require(refuted or _exceeds(statement, shown), "no accepted claim says invalid, and no limit is exceeded")


def _is_of_every_model(fault: Fields) -> bool:
    """Static rules are the same under every model, but for IL408."""
    return fault.values.get("code", "IL408") != "IL408"


def _exceeds(statement: Statement, shown: list[dict[str, object]]) -> bool:
    counted = [(claim["claim"], claim) for claim in shown if claim["claim"] in statement.limits]
    return any(
        limit is not None and number > limit
        for kind, claim in counted
        for limit, number in zip(
            statement.limits[str(kind)], Fields(claim, "a claim").integers(COUNTS[str(kind)])
        )
    )
