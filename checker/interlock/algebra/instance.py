"""A skeleton with its numbers: ranks, microbatches, chunks and the parameters of its own; where its chunks
lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.algebra.expr import evaluate, holds
from interlock.algebra.model import LAYER_LIMIT
from interlock.algebra.skeleton import Budget, Interpreter
from interlock.language import ast
from interlock.text.finding import error
from interlock.text.phrases import join_words, list_names, suggest
from interlock.text.source import Span

# arguments that are not parameters of the skeleton: they say how the region is laid out
LAYOUT_ARGUMENTS = {
    "sharded": ("partition",),
    "replicated": ("owner", "place", "gather", "post", "gather_on", "scatter_on"),
}


@dataclass(frozen=True)
class Instance:
    """`stage[r, c]`: the stage, counted within the skeleton's run of stages, of chunk c of rank r."""

    skeleton: ast.Skeleton
    ranks: int
    microbatches: int
    chunks: int
    values: dict[str, int]
    stage: np.ndarray

    def interpreter(self, budget: Budget, comms: dict[str, int]) -> Interpreter:
        return Interpreter(self.skeleton, self.values, self.microbatches, self.chunks, budget, comms)

    def rank_of(self) -> np.ndarray:
        """(rank, chunk) of each stage of the run."""
        out = np.empty((self.stage.size, 2), dtype=np.int64)
        out[self.stage.ravel()] = np.indices(self.stage.shape).reshape(2, -1).T
        return out


def chunk_parameter(skeleton: ast.Skeleton) -> str | None:
    """The parameter that gives the number of chunks (`chunks V`), if it is one."""
    chunks = skeleton.chunks
    own = {p.text for p in skeleton.parameters[2:]}
    return chunks.text if isinstance(chunks, ast.Name) and chunks.text in own else None


def arguments_of(region: ast.Region, skeleton: ast.Skeleton) -> dict[str, ast.Argument]:
    """A region's arguments by name: `partition` or `owner`, `place`, `chunks`, and the skeleton's own. Raises
    IL210.
    """
    chunk = chunk_parameter(skeleton)
    own = ["chunks" if p.text == chunk else p.text for p in skeleton.parameters[2:]]
    allowed = [*LAYOUT_ARGUMENTS[skeleton.layout], *own]
    out: dict[str, ast.Argument] = {}
    free = list(own)
    for argument in region.arguments:
        if argument.name is None:
            if not free:
                raise error(
                    "IL210",
                    f"skeleton `{skeleton.name}` takes no further argument by its place",
                    argument.span,
                    help=f"name it; known arguments: {list_names(allowed)}",
                )
            name = free.pop(0)
        else:
            name = argument.name.text
            name = "chunks" if name == chunk else name
            if name not in allowed:
                raise _unknown(name, argument, skeleton, allowed)
            if name in free:
                free.remove(name)
        if name in out:
            raise error(
                "IL210", f"argument `{name}` is given twice", argument.span, help="delete one of them"
            )
        out[name] = argument
    return out


def _unknown(name: str, argument: ast.Argument, skeleton: ast.Skeleton, allowed: list[str]):
    hint = suggest(name, allowed) or f"it takes {list_names(allowed)}"
    if name == "chunks" and skeleton.chunks is not None:
        hint = "its number of chunks is fixed in its head"
    elif name == "chunks" and skeleton.weaves_into is not None:
        hint = (
            f"write `{skeleton.weaves_into}(chunks: ..)`, into which neighbouring `{skeleton.name}` "
            "regions are woven"
        )
    return error("IL210", f"skeleton `{skeleton.name}` takes no argument `{name}`", argument.span, help=hint)


def integer(argument: ast.Argument) -> int:
    if not isinstance(argument.value, ast.Int):
        raise error("IL210", f"argument `{argument.name or ''}` wants an integer", argument.value.span)
    return argument.value.value


def chunks_asked(skeleton: ast.Skeleton, arguments: dict[str, ast.Argument]) -> int:
    """Chunks a rank of one region: the argument, the number in the skeleton's head, or 1."""
    if "chunks" in arguments:
        value = integer(arguments["chunks"])
        if value < 1:
            raise error(
                "IL207", f"`chunks` is {value}", arguments["chunks"].span, help="a rank has 1 chunk or more"
            )
        return value
    if isinstance(skeleton.chunks, ast.Int):
        return skeleton.chunks.value
    return 1


def instantiate(
    skeleton: ast.Skeleton,
    ranks: int,
    microbatches: int,
    chunks: int,
    arguments: dict[str, ast.Argument],
    span: Span,
) -> Instance:
    """Raises IL204 (a place map that misses a stage), IL205 (stages beyond all models), IL207 (`where`),
    IL210 (a parameter without a value).
    """
    if len(skeleton.parameters) < 2:
        raise error(
            "IL210",
            f"skeleton `{skeleton.name}` has {len(skeleton.parameters)} parameters",
            skeleton.name.span,
            help="the first two are the numbers of ranks and of microbatches: `(P, M)`",
        )
    first, second, *own = [p.text for p in skeleton.parameters]
    values = {first: ranks, second: microbatches}
    chunk = chunk_parameter(skeleton)
    for name in own:
        if name == chunk:
            values[name] = chunks
        elif name in arguments:
            values[name] = integer(arguments[name])
        else:
            raise error(
                "IL210",
                f"skeleton `{skeleton.name}` needs a value for `{name}`",
                span,
                help=f"write `{skeleton.name}({name}: ..)`",
            )
    if skeleton.chunks is not None:
        chunks = evaluate(skeleton.chunks, values)
        if chunks < 1:
            raise error(
                "IL207",
                f"skeleton `{skeleton.name}` has {chunks} chunks here",
                span,
                help="a rank has 1 chunk or more",
            )
    if chunks * ranks > LAYER_LIMIT:
        raise error(
            "IL205",
            f"{chunks:,} chunks on each of {ranks:,} ranks are more stages than a model has layers",
            span,
            help=f"a model has at most {LAYER_LIMIT:,} layers",
        )
    if skeleton.where is not None and not holds(skeleton.where, values):
        raise error(
            "IL207",
            f"skeleton `{skeleton.name}` does not exist for "
            f"{join_words(f'{k} = {v}' for k, v in values.items())}",
            span,
            help=f"its `where` asks for: {_show(skeleton.where)}",
        )
    stage = (
        _layout(skeleton, ranks, chunks, values)
        if skeleton.layout == "sharded"
        else np.zeros((ranks, 1), dtype=np.int64)
    )
    return Instance(skeleton, ranks, microbatches, chunks, values, stage)


def _layout(skeleton: ast.Skeleton, ranks: int, chunks: int, values: dict[str, int]) -> np.ndarray:
    r, c = np.indices((ranks, chunks))
    match skeleton.place:
        case None:
            return c * ranks + r
        case ast.Word(text="loop"):
            return c * ranks + r
        case ast.Word(text="vee"):
            return c * ranks + np.where(c % 2 == 1, ranks - 1 - r, r)
        case ast.PlaceMap(rank=rank, chunk=chunk, stage=expression):
            flat = evaluate(expression, values | {rank.text: r.ravel(), chunk.text: c.ravel()})
            stage = np.broadcast_to(flat, (ranks * chunks,)).reshape(ranks, chunks)
            found = np.bincount(np.clip(stage.ravel(), -1, stage.size) + 1, minlength=stage.size + 2)[1:-1]
            if (found != 1).any():
                s = int(np.argmax(found != 1))
                raise error(
                    "IL204",
                    f"the place map of skeleton `{skeleton.name}` gives stage {s} "
                    f"{'to no rank' if found[s] == 0 else 'twice'}",
                    skeleton.place.span,
                    f"with {join_words(f'{k} = {v}' for k, v in values.items())}",
                    f"stages 0..{stage.size - 1} must each come once",
                )
            return stage
    raise error(
        "IL203",
        f"no placement is called `{skeleton.place}`",
        skeleton.place.span,
        help="known placements: `loop`, `vee`, `map(r, c) = ..`",
    )


def _show(node) -> str:
    match node:
        case ast.Int(value=value):
            return str(value)
        case ast.Name(text=text):
            return text
        case ast.Negate(operand=operand):
            return f"-{_show(operand)}"
        case ast.Not(operand=operand):
            return f"not {_show(operand)}"
        case ast.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(_show, arguments))})"
        case ast.Binary(operator=o, left=a, right=b) if o in ("*", "div", "mod"):

            def wrap(x):
                return f"({_show(x)})" if isinstance(x, ast.Binary) and x.operator in "+-" else _show(x)

            return f"{wrap(a)} {o} {wrap(b)}" if o != "*" else f"{wrap(a)}*{wrap(b)}"
        case (
            ast.Binary(operator=o, left=a, right=b)
            | ast.Compare(operator=o, left=a, right=b)
            | ast.Logic(operator=o, left=a, right=b)
        ):
            return f"{_show(a)} {o} {_show(b)}"
    return "?"
