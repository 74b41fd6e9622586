"""Requests with a word that the operator refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.gateway import fake_gateway
from fakes.problems import problem
from faultline_gateway.app import word_policy
from faultline_gateway.settings import GatewaySettings

TESTED: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}


def written(folder: Path) -> Path:
    """A list of refused words."""
    file = folder / "words.txt"
    file.write_text("severed head  # everywhere\nboat\n", encoding="utf-8")
    return file


@pytest.mark.fault("B34", "T17")
@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/stress-tests", TESTED | {"interventions": ["dog=>Boats"]}, "/interventions/0"),
        ("/v1/datasets", {"name": "pets", "classes": ["a dog", "a severed  head"]}, "/classes/1"),
        ("/v1/bug-hunts", {"labels": ["a boat"], "classifiers": ["steady"]}, "/labels/0"),
        ("/v1/jobs", {"cluster": "x", "run": TESTED | {"name": "boat"}}, "/run/name"),
    ],
)
async def test_a_request_with_a_refused_word_is_refused_with_its_place(
    path: str, body: dict[str, Any], where: str, tmp_path: Path
) -> None:
    async with fake_gateway(tmp_path, policy_words_file=written(tmp_path)) as gateway:
        found = problem(await gateway.http.post(path, json=body), 422, "policy-refused")
        assert str(found.detail).startswith(f"{where}: ")
        assert found.retryable is False
        assert (await gateway.http.get("/v1/runs")).json()["runs"] == []


async def test_images_and_other_words_pass_and_the_run_records_the_list(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, policy_words_file=written(tmp_path)) as gateway:
        await gateway.upload("demo", 1, classes=("sled", "lake"))
        made = (await gateway.http.post("/v1/stress-tests", json=TESTED)).json()
        assert made["resolved_config"]["policy_words"] == ["severed head", "boat"]


def test_a_list_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt"):
        word_policy(GatewaySettings(policy_words_file=tmp_path / "none.txt"))
