"""The measure of a start: what is summed over processes, and what the rows say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evaluation.product_speed import cold_start, contestant, start

BURN = "import time\nwhile time.process_time() < 0.5: pass\n"
HOLD = "print(flush=True); held = bytearray(b'x') * 80_000_000; print(flush=True); input()"


def lap(**changed: float) -> start.Taken:
    whole = {"up_s": 9.0, "ready_s": 10.0, "ready_processor_s": 20.0}
    return whole | {"memory_bytes": 2e9, "processes": 17.0, "idle_share": 0.04} | changed


def test_processor_time_counts_children_that_have_ended() -> None:
    before = contestant.processor_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert contestant.processor_seconds(os.getpid()) - before > 0.4


def test_memory_counts_what_descendants_hold_and_not_the_process_itself() -> None:
    own = bytearray(b"x") * 200_000_000
    # Tests that ran before in this process may have left descendants of their own.
    others = cold_start.memory_bytes(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.pid in set(contestant.descendants(os.getpid()))
        child.stdout.readline()
        child.stdout.readline()
        held = cold_start.memory_bytes(os.getpid()) - others
        child.communicate(b"\n")
    assert 80e6 < held < 80e6 + len(own)


def test_the_rows_compare_each_pair_and_judge_the_present_one() -> None:
    laps = {
        "earlier": [lap(), lap(ready_s=12.0, memory_bytes=9e9)],
        "present": [lap(ready_s=5.0), lap(ready_s=12.0, idle_share=0.06)],
    }
    found = {row.measure: row for row in start.rows(laps, "abc")}
    ratio = found["times as fast as abc by wall time, to a first prediction and a first edit"]
    assert (ratio.value, ratio.low, ratio.high, ratio.n) == (1.5, 1.0, 2.0, 2)
    assert ratio.met
    assert found["GB of memory at rest (PSS), present"].met
    assert found["GB of memory at rest (PSS), abc"].met is None
    # The worst counts.
    assert found["percent of a processor at rest, present"].value == pytest.approx(5.0)
    assert found["percent of a processor at rest, present"].met is False
