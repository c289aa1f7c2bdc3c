"""The fields of a JSON object, read as what they have to be."""

from __future__ import annotations

from math import inf
from typing import NoReturn


class Malformed(Exception):
    """The program or a claim is not what spec/certificates.md asks for; the message is one sentence."""


def require(condition: object, sentence: str) -> None:
    if not condition:
        raise Malformed(sentence)


class Fields:
    """The fields of a JSON object called `what`. To read one as what it is not raises Malformed."""

    def __init__(self, x: object, what: str) -> None:
        self.is_object = type(x) is dict
        self.values: dict[str, object] = x if type(x) is dict else {}
        self.what = what

    def get(self, key: str) -> object:
        require(key in self.values, f"{self.what} has no field {key!r}")
        return self.values[key]

    def refuse(self, key: str, expected: str) -> NoReturn:
        raise Malformed(f"{self.what}'s {key} is not {expected}")

    def flag(self, key: str) -> bool:
        x = self.get(key)
        return x if type(x) is bool else self.refuse(key, "true or false")

    def integer(self, key: str, low: int, high: float = inf) -> int:
        """An integer in low .. high-1."""
        x = self.get(key)
        return x if type(x) is int and low <= x < high else self.refuse(key, "an integer in range")

    def integers(
        self, key: str, low: float = -inf, high: float = inf, length: int | None = None
    ) -> list[int]:
        """A list of integers in low .. high-1."""
        x = self.get(key)
        if type(x) is not list or (x and set(map(type, x)) != {int}):
            self.refuse(key, "a list of integers")
        if x and ((low != -inf and min(x) < low) or (high != inf and max(x) >= high)):
            self.refuse(key, "a list of integers in range")
        return x if length in (None, len(x)) else self.refuse(key, f"a list of {length} entries")

    def pair(self, key: str) -> tuple[int, int]:
        first, second = self.integers(key, 0, length=2)
        return first, second

    def limits(self, key: str, ranks: int) -> list[int | None]:
        """An integer or null for each rank."""
        x = self.get(key)
        if type(x) is not list or len(x) != ranks:
            self.refuse(key, "a list with an entry for each rank")
        Fields({key: [limit for limit in x if limit is not None]}, self.what).integers(key, 0)
        return x

    def text(self, key: str) -> str:
        x = self.get(key)
        return x if type(x) is str else self.refuse(key, "a string")

    def texts(self, key: str) -> list[str]:
        x = self.get(key)
        if type(x) is not list or any(type(text) is not str for text in x):
            self.refuse(key, "a list of strings")
        return x

    def records(self, key: str, what: str) -> list[Fields]:
        """A list of objects, each called `what`."""
        x = self.get(key)
        if type(x) is not list or any(type(record) is not dict for record in x):
            self.refuse(key, "a list of objects")
        return [Fields(record, what) for record in x]
