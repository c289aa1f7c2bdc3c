"""Messages between the processes of an emulation: one pipe to each process, inherited, which every other may
write to.

A message is a line `JOB RANK WHAT`, shorter than what a pipe writes at once, so that none is torn; an empty
one only wakes.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable


class Mail:
    """This process's pipe, and those of all. `received[job]`: what has come, (what, rank)."""

    def __init__(self, rank: int, inbox: int, pipes: Iterable[int]):
        self.rank, self.inbox, self.pipes = rank, inbox, list(pipes)
        self.received: dict[int, set[tuple[str, int]]] = {}
        self._unfinished_line = b""
        os.set_blocking(inbox, False)

    def send(self, job: int, ranks: Iterable[int], what: str) -> None:
        for r in ranks:
            os.write(self.pipes[r], f"{job} {self.rank} {what}\n".encode())

    def wake(self) -> None:
        """From another thread: the next `wait` of this process ends at once."""
        os.write(self.pipes[self.rank], b"\n")

    def wait(self, seconds: float) -> None:
        """Until something comes, or the time is over; then everything that has come is in `received`."""
        if select.select([self.inbox], [], [], max(seconds, 0))[0]:
            data = self._unfinished_line + os.read(self.inbox, 1 << 16)
            *lines, self._unfinished_line = data.split(b"\n")
            for line in filter(None, lines):
                job, rank, what = line.decode().split(" ")
                self.received.setdefault(int(job), set()).add((what, int(rank)))

    def forget(self, job: int) -> None:
        """Messages of this job and of earlier ones."""
        self.received = {j: messages for j, messages in self.received.items() if j > job}
