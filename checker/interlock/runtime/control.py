"""Where each rank stands, told through the store; one failure ends all ranks (spec/lowering.md, IL848)."""

from __future__ import annotations

import atexit
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from interlock.runtime.errors import RunError

BEAT = 0.25  # seconds between two looks at the store
GONE = 2.5  # a rank whose beat stands still for so long is gone
GRACE = 5.0  # after a failure elsewhere, how long a rank that does not react may stay


class Control:
    """`store`: this rank's view of the store all ranks share.

    `describe(i)`: operation i of this rank, with its line of the plan.

    A second thread writes this rank's position and reads whether another one failed; `check` raises then, and
    every wait is a `check`. `progress` is what a wait does meanwhile: it says whether nothing is left to do.
    """

    def __init__(
        self,
        store,
        rank: int,
        ranks: int,
        describe: Callable[[int], str],
        timeout: float,
        exit_when_stuck: bool = True,
    ):
        self.store, self.rank, self.ranks, self.describe, self.timeout = store, rank, ranks, describe, timeout
        self.exit_when_stuck = exit_when_stuck
        self.now: tuple[int, str, float] = (-1, "is between steps", time.monotonic())
        self._failure: tuple[str, str] | None = None
        self._raised = self._closed = False
        self._seen: dict[
            int, tuple[dict, float]
        ] = {}  # rank -> its last position, and when its beat last moved
        self._work: queue.Queue = queue.Queue()
        self._beats = 0
        self._inside = False
        self.progress: Callable[[], bool] = lambda: True
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._publish()
        self._threads = [
            threading.Thread(target=f, daemon=True, name=f"interlock-{n}")
            for n, f in (("watch", self._watch), ("wait", self._waits))
        ]
        for t in self._threads:
            t.start()
        atexit.register(self.close)

    # ---- the main thread
    # -----------------------------------------------------------------------------------------------

    def at(self, index: int, state: str = "runs") -> None:
        self.now = (index, state, time.monotonic())

    def check(self) -> None:
        """Raises RunError if any rank failed, or this rank has been in one operation for longer than the time
        limit.
        """
        if self._failure is not None:
            self._raised = True
            raise RunError(*self._failure)
        if time.monotonic() - self.now[2] > self.timeout:
            raise self.stuck()

    def wait(self, blocking: Callable[[], object], state: str) -> None:
        """Runs what blocks in another thread, and checks and makes progress meanwhile.

        Raises RunError, also for what `blocking` raises.
        """
        self.at(self.now[0], state)
        done = threading.Event()
        failed: list[BaseException] = []
        self._work.put((blocking, done, failed))
        while not done.wait(0.05 if self.progress() else 0.002):
            self.check()
        if failed:
            raise self.lost(failed[0])

    def begin(self, starts: Callable[[], object]) -> object:
        """What starts something that other ranks take part in, without waiting for it.

        Raises RunError for what it raises.
        """
        try:
            return starts()
        except RuntimeError as error:
            raise self.lost(error) from error

    @property
    def waiting(self) -> bool:
        """Whether the other thread is still inside of a wait that the main thread has given up."""
        return self._inside

    def until(self, ready: Callable[[], bool], state: str) -> None:
        self.at(self.now[0], state)
        while not ready():
            self.check()
            time.sleep(0.001)

    def stuck(self) -> RunError:
        return self.fail("IL848", f"rank {self.rank} has been in one operation for {self.timeout:g} s")

    def lost(self, error: BaseException) -> RunError:
        """A transfer or collective failed: most often because another rank did, which then has said so, or is
        gone.
        """
        deadline = time.monotonic() + GONE + 2 * BEAT
        while time.monotonic() < deadline:
            if self._failure is not None:
                self._raised = True
                return RunError(*self._failure)
            if self._gone():
                break
            time.sleep(0.05)
        gone = self._gone()
        what = (
            f"{'rank' if len(gone) == 1 else 'ranks'} {', '.join(map(str, gone))} "
            f"{'is' if len(gone) == 1 else 'are'} gone (killed, or its machine was lost)"
            if gone
            else f"rank {self.rank} lost its connection: {_first_line(error)}"
        )
        return self.fail("IL848", what)

    def fail(self, code: str, message: str) -> RunError:
        """Tells all ranks; the first failure told is the one that all raise."""
        try:
            self._publish()
            self._read()
        except Exception:  # no store any more
            pass
        if self._failure is not None:
            self._raised = True
            return RunError(*self._failure)
        text = f"{message}{self._inside_of() if code == 'IL848' else ''}\n{self._report()}"
        try:
            with self._lock:
                told = self.store.compare_set("failed", "", json.dumps([code, text]))
            code, text = json.loads(told)
        except Exception:  # no store any more: this rank's own view is all there is
            pass
        self._failure, self._raised = (code, text), True
        return RunError(code, text)

    def close(self) -> None:
        """Ends the two threads: one that is left inside of a store or a wait when the interpreter ends would
        end the process by a signal.
        """
        self._closed = True
        self._stop.set()
        self._work.put(None)
        for t in self._threads:
            t.join(GRACE)
        atexit.unregister(self.close)

    # ---- the other threads
    # ---------------------------------------------------------------------------------------------

    def _waits(self) -> None:
        while (item := self._work.get()) is not None:
            blocking, done, failed = item
            self._inside = True
            try:
                blocking()
            except BaseException as error:
                failed.append(error)
            self._inside = False
            done.set()

    def _watch(self) -> None:
        lost = 0
        while not self._stop.wait(BEAT):
            try:
                self._publish()
                self._read()
                lost = 0
            except Exception as error:
                lost += 1
                if lost >= 4 and self._failure is None:
                    self._failure = (
                        "IL848",
                        "the store of the process group cannot be reached, so the process that keeps it is "
                        f"gone: {_first_line(error)}\n{self._report()}",
                    )
            index, state, since = self.now
            if (
                self._failure is None
                and index >= 0
                and time.monotonic() - since > self.timeout + 2 * BEAT
                and not self._raised
            ):
                self.fail("IL848", f"rank {self.rank} has been in one operation for {self.timeout:g} s")
                self._raised = False
            if self._failure is not None and not self._raised:
                self._leave()
                return

    def _leave(self) -> None:
        """This rank's main thread has to raise; if it cannot, since it is inside of something, the process
        ends.
        """
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and not self._stop.wait(0.05):
            if self._raised:
                return
        if self._raised or self._closed or self.now[0] < 0 or not self.exit_when_stuck:
            return
        code, text = self._failure
        print(
            f"interlock.runtime: rank {self.rank} does not come back from {self.describe(self.now[0])} and "
            f"is ended: {text} [{code}]",
            file=sys.stderr,
            flush=True,
        )
        os._exit(70)

    def _publish(self) -> None:
        index, state, since = self.now
        self._beats += 1
        text = {
            "at": self.describe(index) if index >= 0 else "",
            "state": state,
            "for": round(time.monotonic() - since, 1),
            "beat": self._beats,
        }
        with self._lock:
            self.store.set(f"at/{self.rank}", json.dumps(text))

    def _read(self) -> None:
        with self._lock:
            if self._failure is None and self.store.check(["failed"]):
                told = json.loads(self.store.get("failed"))
                self._failure = (told[0], told[1])
            keys = [f"at/{r}" for r in range(self.ranks)]
            there = [
                (r, json.loads(self.store.get(k)))
                for r, k in enumerate(keys)
                if r != self.rank and self.store.check([k])
            ]
        for r, position in there:
            old = self._seen.get(r)
            if old is None or old[0]["beat"] != position["beat"]:
                self._seen[r] = (position, time.monotonic())

    def _gone(self) -> list[int]:
        return sorted(
            r
            for r, (p, moved) in self._seen.items()
            if time.monotonic() - moved > GONE and p["state"] != "has ended"
        )

    def _inside_of(self) -> str:
        """The ranks that do not wait for others, where this rank does: they hold up the rest."""
        if not self.now[1].startswith("waits"):
            return ""
        busy = [
            (r, p)
            for r, (p, moved) in self._seen.items()
            if p["state"] == "runs" and p["for"] + time.monotonic() - moved > self.timeout / 2
        ]
        return "".join(
            f"; rank {r} does not come out of {p['at']}" for r, p in sorted(busy, key=lambda b: b[0])
        )

    def _report(self) -> str:
        gone = self._gone()
        index, state, since = self.now
        lines = []
        for r in range(self.ranks):
            if r == self.rank:
                here = {
                    "at": self.describe(index) if index >= 0 else "",
                    "state": state,
                    "for": round(time.monotonic() - since, 1),
                }
                moved = time.monotonic()
            elif r in self._seen:
                here, moved = self._seen[r]
            else:
                lines.append(f"  rank {r}: never seen")
                continue
            long = here["for"] + (time.monotonic() - moved)
            lines.append(
                f"  rank {r}: "
                f"{'last seen, it ' * (r in gone)}{here['state']}{' ' * bool(here['at'])}{here['at']}, "
                f"for {long:.1f} s"
            )
        return "\n".join(lines)


def store_of(store, name: str, timeout: float):
    """An own connection, so that a wait of the main thread holds up no watch."""
    import torch.distributed as dist

    try:
        own = store.clone()
    except Exception:
        own = store
    own = dist.PrefixStore(name, own)
    own.set_timeout(timedelta(seconds=timeout))
    return own


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
