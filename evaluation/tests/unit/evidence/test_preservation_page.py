"""The page about preservation says what its result files say, with the number of cases beside each share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.evidence.preservation import PHOTOGRAPHS, PRESERVATION, preservation_page


def share(estimate: float, n: int) -> dict[str, float]:
    return {"estimate": estimate, "low": 0.1, "high": 0.9, "n": n}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """One region alone, of which few groups were planted."""
    given = {
        "false refusals": {"all": share(0.25, 8), "JPEG 80": share(0.5, 4), "by fault": {"moved": 2}},
        "shift": {"found": share(0.75, 8), "named": share(0.5, 8), "found, 64 px": share(0.375, 7)},
        "leak": {"found": share(0.6, 5), "named": share(0.6, 5), "found by kind": {"disc": share(0.8, 10)}},
    }
    file = tmp_path / "preservation.json"
    real = json.loads(PRESERVATION.read_bytes())
    file.write_text(json.dumps(real | {"test": {"no region": given, "region estimated": {"n": 3}}}))
    return file


def test_every_share_has_its_interval_and_its_n(made: Path) -> None:
    told = preservation_page(made)
    assert (
        "Without, 0.750 (0.100 to 0.900) of planted shifts are found (n = 8), and 0.250 (0.100 to 0.900) of "
        "right edits are refused (n = 8)." in told
    )
    for row in (
        "| no region | shifts | 0.750 (0.100 to 0.900) | 8 | 0.500 (0.100 to 0.900) | 8 |",
        "| no region | shifts | 64 px | 0.375 (0.100 to 0.900) | 7 |",
        "| no region | single leaks | disc | 0.800 (0.100 to 0.900) | 10 |",
        "| no region | JPEG 80 | 0.500 (0.100 to 0.900) | 4 |",
    ):
        assert row in told.splitlines()
    assert "crops and zooms" not in told
    assert "by fault" not in told


def test_the_committed_page_names_limits_and_photographs() -> None:
    told, cutouts = preservation_page(), json.loads(PHOTOGRAPHS.read_bytes())
    assert "| `moved` | 0.01 | 0 | 0.0249 |" in told
    assert f"FOLDER=...`: {cutouts['cutouts']} photographic cut-outs" in told
