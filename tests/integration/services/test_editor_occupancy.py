"""The editor's occupancy: of the last minute, of its own calls, and unknown without any."""

from __future__ import annotations

from counterpose_services.editor.deployment import RecentOccupancy


def test_the_share_is_that_of_the_last_minute() -> None:
    now, rows = [0.0], [(0, 0)]
    occupancy = RecentOccupancy(lambda: rows[0], lambda: now[0])
    assert occupancy.look() is None
    now[0], rows[0] = 30.0, (4, 16)
    assert occupancy.look() == 0.25
    now[0], rows[0] = 65.0, (12, 24)
    assert occupancy.look() == 0.5
    # The first half minute is out of sight by now.
    now[0], rows[0] = 95.0, (20, 32)
    assert occupancy.look() == 1.0
    now[0] = 300.0
    occupancy.look()
    now[0] = 400.0
    assert occupancy.look() is None
