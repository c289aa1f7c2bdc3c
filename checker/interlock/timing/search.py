"""Depth-first search for an assignment of jobs, with a limit on the tries."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Tries:
    """How many steps several searches may still take together."""

    def __init__(self, limit: int):
        self.left = limit

    @property
    def used_up(self) -> bool:
        return self.left <= 0


class Search(ABC):
    """Places jobs one after another; `chosen[k]` is where job k goes.

    A subclass says where the next one may.
    """

    def __init__(self, jobs: int):
        self.jobs = jobs
        self.chosen: list[int] = []

    @abstractmethod
    def candidates(self) -> list[int]:
        """Where the next job may go, the best last."""

    @abstractmethod
    def place(self, job: int, where: int) -> None: ...

    @abstractmethod
    def remove(self, job: int, where: int) -> None: ...

    def exhaust(self) -> None:  # noqa: B027 (few searches remember it)
        """Called when the jobs chosen so far leave the rest no place."""

    def run(self, tries: Tries) -> bool:
        """Whether all jobs are placed. False also when the tries are used up."""
        stack = [self.candidates()]
        while stack:
            tries.left -= 1
            if tries.used_up:
                return False
            if not stack[-1]:
                stack.pop()
                self.exhaust()
                if self.chosen:
                    where = self.chosen.pop()
                    self.remove(len(self.chosen), where)
                continue
            where = stack[-1].pop()
            self.place(len(self.chosen), where)
            self.chosen.append(where)
            if len(self.chosen) == self.jobs:
                return True
            stack.append(self.candidates())
        return False
