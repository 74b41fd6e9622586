"""A hunt whose services, gateway and worker are killed at random: the same findings, nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.bug_hunts import HuntItem
from fakes.killed_programs import run_with_kills
from fakes.killed_runs import Killed, Recorded, recorded
from fakes.ledgers import migrated_file
from integration.gateway.test_hunts_kill import HUNT, hunt

ROOT = "/v1/bug-hunts"
KIND = Killed(ROOT, HuntItem, hunt)
BODY: dict[str, Any] = HUNT


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("undisturbed")
    url = migrated_file(folder)
    run_id = run_with_kills(url, folder / "state", ROOT, BODY, kills=0)
    return asyncio.run(recorded(url, folder / "state", KIND, run_id))


def test_programs_killed_at_random_moments_find_what_undisturbed_ones_find(
    url: str, tmp_path: Path, undisturbed: Recorded
) -> None:
    run_id = run_with_kills(url, tmp_path / "state", ROOT, BODY, kills=1)
    found = asyncio.run(recorded(url, tmp_path / "state", KIND, run_id))
    assert found.items == undisturbed.items
    assert found.findings == undisturbed.findings
