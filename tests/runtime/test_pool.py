"""The processes of emulations: kept from job to job, bounded in time, and none left."""

from __future__ import annotations

import os
import signal

import pytest

from interlock.algebra.standard import derive_standard
from interlock.check.subject import write_transfers
from interlock.interchange.plan import program_head
from interlock.interchange.plan_actions import list_actions
from interlock.program.ir import Kind
from interlock.runtime.emulation import EmulationSettings, emulate
from interlock.runtime.mail import Mail
from interlock.runtime.pool import Pool
from interlock.timing.durations import durations_by_kind

pytestmark = pytest.mark.torch


def test_messages_arrive_whole_and_for_their_job():
    pipes = [os.pipe() for _ in range(2)]
    ends = [w for _, w in pipes]
    mine, other = Mail(0, pipes[0][0], ends), Mail(1, pipes[1][0], ends)
    other.send(3, [0], "t1")
    other.send(4, [0], "here")
    os.write(ends[0], b"4 1 t")  # cut where a read may end
    mine.wait(1)
    assert mine.received == {3: {("t1", 1)}, 4: {("here", 1)}}
    os.write(ends[0], b"27\n")
    mine.wake()
    mine.wait(1)
    assert mine.received[4] == {("here", 1), ("t27", 1)}
    mine.forget(3)
    assert list(mine.received) == [4]
    mine.wait(0)
    for fd in (fd for pair in pipes for fd in pair):
        os.close(fd)


def test_jobs_one_after_the_other_and_a_process_that_ends():
    small, large = (write_transfers(derive_standard("1f1b", P, 3)) for P in (2, 3))
    with Pool(3) as pool:
        for p in (large, small, large):
            times = durations_by_kind(p, {Kind.F: 2_000_000, Kind.B: 4_000_000})
            measured = emulate(p, times, EmulationSettings(limit=5), pool=pool)
            assert measured.finished and measured.timeline.makespan >= (3 + p.ranks - 1) * 6_000_000
            first = [p.show(i) for i in range(len(p.order)) if measured.timeline.start[i] >= 0]
            assert len(first) == sum(measured.timeline.end >= 0)
        with pytest.raises(ValueError):
            pool.run(4, {}, 1)
        os.kill(pool.workers[1].process.pid, signal.SIGKILL)
        with pytest.raises(OSError):
            emulate(large, durations_by_kind(large, {Kind.F: 1_000, Kind.B: 1_000}), pool=pool)
    assert all(w.process.poll() is not None for w in pool.workers)


def test_a_job_that_takes_too_long():
    p = write_transfers(derive_standard("1f1b", 2, 2))
    job = {
        "plain": program_head(p),
        "ranks": list_actions(p),
        "model": "pair",
        "seconds": [5.0] * len(p.order),
        "sizes": [0] * len(p.order),
        "limit": 60,
    }
    with Pool(2) as pool, pytest.raises(OSError) as raised:
        pool.run(2, job, 0.5)
    assert "not done after" in str(raised.value) and all(w.process.poll() is not None for w in pool.workers)
