"""Integer expressions of skeletons, for one value or for many at once.

A value is a Python int or an int64 array with one entry a lane; a truth value is a bool or a bool array.
Lanes are the
turns of the loops around the expression. Errors are IL213.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from interlock.language import ast
from interlock.text.finding import InputError, error
from interlock.text.phrases import suggest

LIMIT = 1 << 60  # no value is larger, so that sums and products stay in 64 bits

Value = int | np.ndarray
Env = Mapping[str, Value]


def evaluate(node: ast.Expr, env: Env) -> Value:
    """The value of an expression; arrays if a name in it has an array."""
    match node:
        case ast.Int(value=value):
            return _bounded(value, node)
        case ast.Name(text=text):
            if text not in env:
                raise unknown_name(text, node.span, env)
            return env[text]
        case ast.Negate(operand=operand):
            return -evaluate(operand, env)
        case ast.Binary(operator=operator, left=left, right=right):
            return _binary(operator, evaluate(left, env), evaluate(right, env), node)
        case ast.Call(function=function, arguments=arguments) if (
            function.text in ("min", "max") and arguments
        ):
            pick = (min, np.minimum) if function.text == "min" else (max, np.maximum)
            out = evaluate(arguments[0], env)
            for other in arguments[1:]:
                other = evaluate(other, env)
                out = pick[isinstance(out, np.ndarray) or isinstance(other, np.ndarray)](out, other)
            return out
        case ast.Call(function=function):
            raise error(
                "IL213",
                f"`{function.text}` is no function of skeletons",
                function.span,
                help="skeletons know `min` and `max`; `for m in owned(r)` runs over a rank's microbatches",
            )
        case ast.Quantity():
            raise error(
                "IL213",
                "a number with a unit in a skeleton",
                node.span,
                help="skeletons compute with plain integers",
            )
    raise error("IL213", "this is a condition where a number is needed", node.span)


def holds(node: ast.Condition, env: Env) -> bool | np.ndarray:
    """The truth of a condition. `and`, `or` look at the right side only where the left one leaves it open."""
    match node:
        case ast.Compare(operator=operator, left=left, right=right):
            return _COMPARE[operator](evaluate(left, env), evaluate(right, env))
        case ast.Not(operand=operand):
            value = holds(operand, env)
            return ~value if isinstance(value, np.ndarray) else not value
        case ast.Logic(operator=operator, left=left, right=right):
            first = holds(left, env)
            if not isinstance(first, np.ndarray):
                return holds(right, env) if first == (operator == "and") else first
            open_ = first if operator == "and" else ~first
            out = first.copy()
            if open_.any():
                out[open_] = holds(right, select(env, open_))
            return out
    raise error(
        "IL213", "this is a number where a condition is needed", node.span, help="compare it: `i == 0`"
    )


def select(env: Env, lanes: np.ndarray) -> dict[str, Value]:
    """The same names with the values of some lanes only (a mask or indices)."""
    return {k: v[lanes] if isinstance(v, np.ndarray) else v for k, v in env.items()}


_COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _binary(operator: str, a: Value, b: Value, node: ast.Binary) -> Value:
    if operator in ("div", "mod"):
        zero = (b == 0).any() if isinstance(b, np.ndarray) else b == 0
        if zero:
            raise error(
                "IL213",
                f"division by zero in `{operator}`",
                node.right.span,
                "is 0 here",
                "guard it with `if`, or with `where` in the skeleton's head",
            )
        return a // b if operator == "div" else a % b
    if operator == "+":
        return _bounded(a + b, node)
    if operator == "-":
        return _bounded(a - b, node)
    if _size(a) * _size(b) > LIMIT:
        raise _too_large(node)
    return a * b


def _size(value: Value) -> int:
    if isinstance(value, np.ndarray):
        return int(np.abs(value).max()) if len(value) else 0
    return abs(value)


def _bounded(value: Value, node) -> Value:
    if _size(value) > LIMIT:
        raise _too_large(node)
    return value


def _too_large(node) -> InputError:
    return error("IL213", "the value does not fit: it is above 2^60", node.span)


def unknown_name(text: str, span, env: Env) -> InputError:
    return error(
        "IL213",
        f"unknown name `{text}`",
        span,
        help=suggest(text, env) or f"known here: {', '.join(sorted(env)) or 'no name'}",
    )
