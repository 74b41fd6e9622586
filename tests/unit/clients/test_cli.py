"""The command line: verbs, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faultline._gate import Exit, Gate, exit_for_error, exit_for_state
from faultline.cli import app
from faultline.resources.datasets import picture_files, upload_batches
from faultline_core.errors import BackendUnavailable, DatasetEmpty, QuotaExceeded, Unauthorized, UnknownModel
from faultline_core.types import Estimate

runner = CliRunner()
NOWHERE = "http://127.0.0.1:9"


def test_every_verb_of_the_sdk_is_a_command() -> None:
    text = runner.invoke(app, ["--help"]).output
    for verb in ("stress-test", "wait", "cancel", "resume", "runs", "datasets", "classifiers", "services"):
        assert verb in text


def test_an_unknown_edit_type_is_a_usage_error_that_names_it() -> None:
    done = runner.invoke(
        app, ["stress-test", "--dataset", "d", "--classifier", "c", "--edit-type", "mood", "--url", NOWHERE]
    )
    assert done.exit_code == Exit.USAGE
    assert "'mood'" in done.output


def test_a_malformed_classifier_is_a_usage_error() -> None:
    done = runner.invoke(
        app, ["stress-test", "--dataset", "d", "--classifier", "../../etc/passwd", "--url", NOWHERE]
    )
    assert done.exit_code == Exit.USAGE
    assert "classifiers" in done.output


def test_an_empty_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetEmpty):
        picture_files(tmp_path)


def test_uploads_are_cut_into_batches_in_order(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    for number in range(40):
        (tmp_path / "bus" / f"{number:02}.png").write_bytes(bytes([number]))
    (tmp_path / "bus" / "notes.txt").write_text("no picture")
    batches = list(upload_batches(picture_files(tmp_path)))
    assert [len(batch) for batch in batches] == [32, 8]
    assert batches[1][0].filename == "32.png"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.2, 0.4, Exit.FAILED), (0.0, 0.05, Exit.PASSED), (0.05, 0.2, Exit.INCONCLUSIVE)],
)
def test_the_gate_needs_the_whole_interval_on_one_side(low: float, high: float, verdict: Exit) -> None:
    drop = Estimate(estimate=(low + high) / 2, low=low, high=high, n=30)
    assert Gate(0.1).judge(drop) is verdict


def test_no_surviving_picture_is_inconclusive() -> None:
    assert Gate(0.1).judge(Estimate(estimate=None, low=None, high=None, n=0)) is Exit.INCONCLUSIVE


def test_an_incomplete_run_is_never_passed() -> None:
    assert exit_for_state("completed") is Exit.PASSED
    assert exit_for_state("completed_with_failures") is Exit.INCOMPLETE
    assert exit_for_state("cancelled") is Exit.INCOMPLETE


def test_errors_find_their_exit_codes() -> None:
    assert exit_for_error(UnknownModel("x")) is Exit.USAGE
    assert exit_for_error(Unauthorized("x")) is Exit.REFUSED
    assert exit_for_error(QuotaExceeded("x")) is Exit.REFUSED
    assert exit_for_error(BackendUnavailable("x")) is Exit.INCOMPLETE


def test_json_output_is_json_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    from faultline import cli
    from faultline._client import Client

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"services": [{"service": "scorer", "ready": True}]})

    http = httpx.Client(transport=httpx.MockTransport(handle), base_url="http://gateway")
    monkeypatch.setattr(cli, "Client", lambda url: Client(http=http))
    done = runner.invoke(app, ["services", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.output)["services"][0]["service"] == "scorer"
