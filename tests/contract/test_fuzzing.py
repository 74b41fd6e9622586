"""Schemathesis fuzzes a live gateway by its OpenAPI document, with every check that it has.

``make contract CASES=200 SEED=1`` sets how many cases it draws for an operation, and from which seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.live import Live, live_gateway
from contract.narrowed import narrowed, with_known_ids

CASES, SEED = int(os.environ.get("CONTRACT_CASES", "25")), os.environ.get("CONTRACT_SEED", "1")
CONFIG = Path(__file__).with_name("schemathesis.toml")
PROGRAM = Path(sys.executable).with_name("schemathesis")


@dataclass(frozen=True)
class Round:
    """One run of schemathesis."""

    mode: str
    """How requests are drawn."""
    unchecked: str
    """The check that is about requests of the other mode, of which a few are drawn, too."""
    document: Callable[[dict[str, Any], Live], dict[str, Any]]
    phases: str


ROUNDS = (
    Round("negative", "positive_data_acceptance", with_known_ids, "coverage,fuzzing"),
    Round("positive", "negative_data_rejection", narrowed, "coverage,fuzzing,stateful"),
)


@pytest.mark.timeout(max(1800, 30 * CASES))
@pytest.mark.fault("T1")
async def test_every_operation_keeps_its_word_in_the_openapi_document(tmp_path: Path) -> None:
    async with live_gateway(tmp_path) as live, httpx.AsyncClient(base_url=live.address) as http:
        served = (await http.get("/openapi.json")).json()
        codes = [await fuzz(each, each.document(served, live), live, tmp_path) for each in ROUNDS]
        assert (await http.get("/healthz")).status_code == httpx.codes.OK
    assert codes == [0, 0]


async def fuzz(
    round: Round, document: dict[str, Any], live: Live, folder: Path, *, cases: int = CASES, key: str = ""
) -> int:
    """Run schemathesis, whose report goes to standard output, and return its exit code.

    ``key``: the API key that it sends, if any.
    """
    path = folder / f"{round.mode}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    command = [
        str(PROGRAM), f"--config-file={CONFIG}", "run", str(path), f"--url={live.address}",
        f"--mode={round.mode}", f"--phases={round.phases}", f"--exclude-checks={round.unchecked}",
        f"--max-examples={cases}", f"--seed={SEED}",
        *([f"--header=Authorization: Bearer {key}"] if key else []),
    ]  # fmt: skip
    return await (await asyncio.create_subprocess_exec(*command)).wait()
