"""The page about what a kill costs, and its results, of which the newest are kept."""

from __future__ import annotations

from pathlib import Path

from evaluation.evidence.lost_work import Kill, keep, lost_work_page, read_kills

LOOP = Kill(by="a plain loop", killed="the loop", ended=100, lost=100, again=0)
JOB = Kill(by="a Ray job", killed="the driver", ended=103, lost=0, again=12, attempts=2)


def test_the_newest_kill_of_each_kind_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "kills.json"
    keep([LOOP, JOB], file)
    newer = JOB.model_copy(update={"again": 40})
    keep([newer], file)
    assert read_kills(file) == [LOOP, newer]


def test_the_page_says_what_was_lost_and_what_was_done_again() -> None:
    told = lost_work_page([LOOP, JOB])
    assert "killed at half-way of 200 items, lost nothing that had ended (1 kills)" in told
    assert "lost all 100." in told
    assert "| a Ray job | the driver | 103 | 0 | 12 | 2 |" in told
    assert "| a plain loop | the loop | 100 | 100 | 0 | - |" in told
