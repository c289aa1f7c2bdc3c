"""Runs the program of a skeleton for one rank. Loops are not stepped through: every name holds one value a
turn, in an array.

Operations come out as columns; where the turns of a loop list several, the columns are merged turn by turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interlock.algebra.expr import Env, evaluate, holds, select
from interlock.language import ast
from interlock.program.kinds import WITH_MICROBATCH, WITH_STAGE, Kind
from interlock.text.finding import InputError, error

OPERATION_LIMIT = 20_000_000
FIELDS = ("kind", "chunk", "mb", "comm", "launch", "at", "width")
_NOTHING = np.empty((len(FIELDS), 0), dtype=np.int64)


class Budget:
    """How many operations and turns of loops may still come, over all ranks and schedules of a run."""

    def __init__(self, limit: int = OPERATION_LIMIT):
        self.limit = self.left = limit

    def take(self, count: int, span) -> None:
        self.left -= count
        if self.left < 0:
            raise too_many(self.limit, span)


def too_many(limit: int, span) -> InputError:
    return error(
        "IL104",
        f"the schedule has more than {limit:,} operations",
        span,
        help="check a smaller member of the family, or prove the family with the skeleton's `prove` block",
    )


class Interpreter:
    """The program of `skeleton` under `values` (its parameters). Codes raised: IL104, IL212, IL213.

    `comms` numbers the communicators by name. Launch numbers are unique over all ranks run, but do not
    ascend.
    """

    def __init__(
        self,
        skeleton: ast.Skeleton,
        values: Env,
        microbatches: int,
        chunks: int,
        budget: Budget,
        comms: dict[str, int] | None = None,
    ):
        self.skeleton, self.values = skeleton, dict(values)
        self.microbatches, self.chunks = microbatches, chunks
        self.budget, self.comms = budget, comms or {}
        self._launch = 0
        self._rank = 0
        self._owned: Sequence[Sequence[int]] | None = None

    def first_launch(self, number: int) -> None:
        """Launch numbers start here, apart from another interpreter's."""
        self._launch = number

    def run(
        self,
        rank: int,
        owned: Sequence[Sequence[int]] | None = None,
        owned_after: Sequence[Sequence[int]] | None = None,
    ) -> list[np.ndarray]:
        """The columns [len(FIELDS), n] of one rank; two of them, before and after `body`, of a Replicated
        skeleton.

        `owned[r]` are the microbatches `owned(r)` runs over, in this order; `owned_after` likewise after
        `body`.
        """
        program = self.skeleton.program
        if program is None:
            raise error(
                "IL212",
                f"skeleton `{self.skeleton.name}` has no program",
                self.skeleton.name.span,
                help="write `rank r { .. }` in it",
            )
        self._rank, self._owned = rank, owned
        env = self.values | {program.variable.text: rank}
        segments, part = [], []
        for statement in program.body:
            if isinstance(statement, ast.Body):
                segments.append(part)
                part = []
                continue
            part.append(statement)
        segments.append(part)
        replicated = self.skeleton.layout == "replicated"
        if len(segments) != 1 + replicated:
            raise error(
                "IL212",
                f"`body` stands {len(segments) - 1} times in skeleton `{self.skeleton.name}`",
                self.skeleton.name.span,
                help="a Replicated skeleton has it once, outside of loops; a Sharded one has none",
            )
        out = []
        for segment in segments:
            out.append(_merge(self._run(segment, env, 1), 1)[1])
            self._owned = owned_after if owned_after is not None else owned
        return out

    def _run(self, statements, env: dict, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Parts (lane, columns) of a block run on n lanes, in the order of its text. Adds the block's `let`s
        to env.
        """
        parts = []
        for statement in statements:
            match statement:
                case ast.SkeletonOp():
                    parts.append(self._operation(statement, env, n, -1))
                case ast.Let(name=name, value=value):
                    env[name.text] = evaluate(value, env)
                case ast.Group(body=body):
                    launch = self._launch + np.arange(n)
                    self._launch += n
                    parts += [self._operation(op, env, n, launch) for op in body]
                case ast.For():
                    parts += self._loop(statement, env, n)
                case ast.If():
                    parts += self._branches(statement, env, n)
                case ast.Body(span=span):
                    raise error(
                        "IL212",
                        "`body` stands inside a loop or an `if`",
                        span,
                        help="move it to the level of `rank r { .. }`",
                    )
        return parts

    def _branches(self, node: ast.If, env: dict, n: int):
        parts, rest = [], np.arange(n)
        for condition, block in (*zip(node.conditions, node.blocks), (None, node.otherwise)):
            here = env if len(rest) == n else select(env, rest)
            truth = True if condition is None else holds(condition, here)
            if isinstance(truth, np.ndarray):
                taken, rest = rest[truth], rest[~truth]
                here = select(here, truth)
            else:
                taken, rest = (rest, rest[:0]) if truth else (rest[:0], rest)
            if len(taken) and block:
                parts += [
                    (taken[lane], columns) for lane, columns in self._run(block, dict(here), len(taken))
                ]
            if not len(rest):
                break
        return parts

    def _loop(self, node: ast.For, env: dict, n: int):
        if isinstance(node.over, ast.Call):
            turns = self._owned_by(node.over, env)
            self.budget.take(n * len(turns), node.span)
            parent, variable = np.repeat(np.arange(n), len(turns)), np.tile(turns, n)
        else:
            first, end = evaluate(node.over.first, env), evaluate(node.over.end, env)
            counts = np.broadcast_to(np.maximum(np.asarray(end) - first, 0), (n,))
            if n and counts.max() > self.budget.limit:
                raise too_many(self.budget.limit, node.span)
            self.budget.take(int(counts.sum()), node.span)
            parent = np.repeat(np.arange(n), counts)
            start = np.broadcast_to(np.asarray(first), (n,)) - (np.cumsum(counts) - counts)
            variable = np.arange(len(parent)) + start[parent]
        if not len(parent):
            return []
        inner = select(env, parent) | {node.variable.text: variable}
        lane, columns = _merge(self._run(node.body, inner, len(parent)), len(parent))
        return [(parent[lane], columns)]

    def _owned_by(self, call: ast.Call, env: dict) -> np.ndarray:
        if call.function.text != "owned" or len(call.arguments) != 1:
            raise error("IL213", "a loop runs over `first ..< end` or over `owned(r)`", call.span)
        if self._owned is None:
            raise error(
                "IL212",
                "`owned(r)` in a Sharded skeleton: no rank owns microbatches there",
                call.span,
                help="write `replicated` in the skeleton's head",
            )
        rank = evaluate(call.arguments[0], env)
        if isinstance(rank, np.ndarray):
            raise error(
                "IL212", "the rank of `owned` changes with a loop", call.span, help="write `owned(r)`"
            )
        if not 0 <= rank < len(self._owned):
            raise error("IL212", f"`owned({rank})`: the ranks are 0..{len(self._owned) - 1}", call.span)
        return np.asarray(self._owned[rank], dtype=np.int64)

    def _operation(self, op: ast.SkeletonOp, env: dict, n: int, launch):
        kind = Kind[op.kind]
        self.budget.take(n, op.span)
        if len(op.arguments) not in _arity(kind):
            raise error("IL212", f"`{op.kind}` has {len(op.arguments)} arguments", op.span, help=_form(kind))
        values = [evaluate(a, env) for a in op.arguments]
        mb, chunk = (
            (values + [0])[:2]
            if kind in WITH_MICROBATCH
            else (-1, (values + [0])[0] if kind in WITH_STAGE else -1)
        )
        if kind in WITH_MICROBATCH:
            self._check(mb, self.microbatches, "microbatch", op, values, env)
        if kind in WITH_STAGE:
            self._check(chunk, self.chunks, "chunk", op, values, env)
        comm = 0
        if op.comm is not None:
            if op.comm.text not in self.comms:
                raise error(
                    "IL107",
                    f"unknown communicator `{op.comm}`",
                    op.comm.span,
                    help="declare it in the schedule: `communicator NAME = ranks ..`",
                )
            comm = self.comms[op.comm.text]
        columns = np.empty((len(FIELDS), n), dtype=np.int64)
        for row, value in enumerate((kind, chunk, mb, comm, launch, op.span.at, op.span.width)):
            columns[row] = value
        return np.arange(n), columns

    def _check(self, value, end: int, what: str, op: ast.SkeletonOp, values, env: dict) -> None:
        bad = (value < 0) | (value >= end)
        if not np.any(bad):
            return
        lane = int(np.argmax(bad)) if isinstance(bad, np.ndarray) else 0

        def at(v):
            return int(v[lane]) if isinstance(v, np.ndarray) else int(v)

        shown = f"{op.kind}({', '.join(str(at(v)) for v in values)})"
        turns = [f"{k} = {at(v)}" for k, v in env.items() if isinstance(v, np.ndarray)]
        where = ", ".join([f"rank {self._rank}"] + turns + [f"{k} = {at(v)}" for k, v in self.values.items()])
        have = f"the {what}s are 0..{end - 1}" if end > 1 else f"the only {what} is 0"
        raise error(
            "IL212",
            f"`{shown}` of skeleton `{self.skeleton.name}` is out of range: {have}",
            op.span,
            f"with {where}",
            "correct the loop, or exclude this case with `where` in the skeleton's head",
        )


def _arity(kind: Kind) -> tuple[int, ...]:
    return (1, 2) if kind in WITH_MICROBATCH else (0, 1) if kind in WITH_STAGE else (0,)


def _form(kind: Kind) -> str:
    if kind in WITH_MICROBATCH:
        return f"write `{kind.name}(microbatch)` or `{kind.name}(microbatch, chunk)`"
    return f"write `{kind.name}(chunk)`" if kind in WITH_STAGE else f"write `{kind.name}` alone"


def _merge(parts, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The parts in one, lane by lane; within a lane in the order of the parts."""
    parts = [p for p in parts if len(p[0])]
    if not parts:
        return np.empty(0, dtype=np.int64), _NOTHING
    if len(parts) == 1:
        return parts[0]
    lane = np.concatenate([p[0] for p in parts])
    columns = np.concatenate([p[1] for p in parts], axis=1)
    if n == 1:
        return lane, columns
    order = np.argsort(lane, kind="stable")
    return lane[order], columns[:, order]
