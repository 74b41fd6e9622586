"""The command takes a folder as a dataset: what it uploads, what it skips, which mistakes it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose_core.errors import UnknownModel
from fakes.command import Play, done, stress_test
from fakes.sdk import ok, problem

DATASET = {
    "name": "mine", "classes": ["bus"], "n_sources": 2, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two images."""
    (tmp_path / "My Bus-es é" / "bus").mkdir(parents=True)
    for number in (1, 2):
        (tmp_path / "My Bus-es é" / "bus" / f"{number}.png").write_bytes(bytes([number]))
    return tmp_path / "My Bus-es é"


def uploaded(captions: Any = None) -> list[httpx.Response]:
    """The answers of an upload: nothing known, made, two images taken."""
    return [ok({"datasets": []}), ok(DATASET), ok({"added": 2, "rejected": []})]


def test_a_folder_is_uploaded_under_a_name_derived_from_its_content(play: Play, folder: Path) -> None:
    script = play(*uploaded(), *done())
    assert stress_test(dataset=str(folder)).exit_code == 0
    name = json.loads(script.seen[1].content)["name"]
    assert re.fullmatch(r"My-Bus-es-[0-9a-f]{12}", name.replace("--", "-"))
    assert script.seen[2].url.path == f"/v1/datasets/{name}/sources"
    assert json.loads(script.seen[3].content)["dataset"] == name
    assert {source["caption"] for source in json.loads(script.seen[2].content)["sources"]} == {None}


def test_a_folder_that_the_gateway_has_is_not_sent_again(play: Play, folder: Path) -> None:
    script = play(*uploaded(), *done())
    stress_test(dataset=str(folder))
    name = json.loads(script.seen[1].content)["name"]
    again = play(ok({"datasets": [DATASET | {"name": name}]}), *done())
    assert stress_test(dataset=str(folder)).exit_code == 0
    assert [request.url.path for request in again.seen[:2]] == ["/v1/datasets", "/v1/stress-tests"]


def test_an_interrupted_upload_starts_again(play: Play, folder: Path) -> None:
    script = play(*uploaded(), *done())
    stress_test(dataset=str(folder))
    name = json.loads(script.seen[1].content)["name"]
    empty = play(ok({"datasets": [DATASET | {"name": name, "n_sources": 0}]}), *uploaded()[1:], *done())
    assert stress_test(dataset=str(folder)).exit_code == 0
    assert empty.seen[2].url.path.endswith("/sources")


def test_a_dataset_takes_precedence_over_a_folder_of_the_same_name(
    play: Play, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    script = play(ok({"datasets": [DATASET | {"name": folder.name}]}), problem(UnknownModel("no such model")))
    stress_test(dataset=folder.name)
    assert len(script.seen) == 1, "the name is no dataset's: it is refused before anything is sent"


def test_captions_from_a_file_are_sent_with_their_images(play: Play, folder: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"file_name": "bus/2.png", "caption": "a red bus"}))
    script = play(*uploaded(), *done())
    shown = stress_test("--captions", str(captions), dataset=str(folder))
    assert shown.exit_code == 0, shown.output
    sources = json.loads(script.seen[2].content)["sources"]
    assert [source["caption"] for source in sources] == [None, "a red bus"]


def test_other_captions_make_another_dataset(play: Play, folder: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"file_name": "bus/2.png", "caption": "a red bus"}))
    names = []
    for more in ([], ["--captions", str(captions)]):
        script = play(*uploaded(), *done())
        stress_test(*more, dataset=str(folder))
        names.append(json.loads(script.seen[1].content)["name"])
    assert names[0] != names[1]


def test_skipped_files_are_named_on_standard_error(play: Play, folder: Path) -> None:
    (folder / "bus" / "3.png").write_bytes(b"")
    refused = {"filename": "2.png", "code": "image-undecodable", "detail": "truncated"}
    play(ok({"datasets": []}), ok(DATASET), ok({"added": 1, "rejected": [refused]}), *done())
    shown = stress_test("--json", dataset=str(folder))
    assert "skipped bus/3.png: image-undecodable" in shown.stderr
    assert "skipped 2.png: image-undecodable: truncated" in shown.stderr
    assert json.loads(shown.stdout)


USAGE = {
    "edit type": (["--edit-type", "mood"], "'mood'"),
    "edit type twice": (["--edit-type", "domain", "--edit-type", "domain"], "'domain' is listed twice"),
    "classifier": (["--classifier", "../../etc/passwd"], "classifiers"),
    "edits": (["--max-edits-per-image", "0"], "max_edits_per_image"),
    "a loss in per cent": (
        ["--least-loss", "5"],
        "--least-loss 5: must be less than 1.0; 5 % is written 0.05",
    ),
    "no loss": (["--severity-loss", "0"], "--severity-loss 0: must be more than 0.0"),
    "an edit": (["--edit", "husky"], "'husky'"),
    "an edit of nothing": (["--edit", "dog=>Dog"], "'dog=>Dog'"),
    "limit": (["--limit", "0"], "--limit 0: must be at least 1"),
    "seed": (["--seed", "-1"], "--seed -1: must be at least 0"),
    "preset": (["--preset", "../x"], "preset"),
    "selection": (["--selection", "best"], "selection"),
    "captions": (["--captions", "absent.jsonl"], "absent.jsonl"),
    "drop": (["--max-drop", "nan"], "0 to 1"),
    "strict alone": (["--strict"], "--max-drop"),
    "report": (["--report", "absent/report.html"], "absent"),
    "not a number": (["--seed", "one"], "seed"),
    "unknown option": (["--colour", "red"], "--colour"),
}


@pytest.mark.parametrize("mistake", USAGE)
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, folder: Path, mistake: str) -> None:
    more, named = USAGE[mistake]
    script = play()
    shown = stress_test(*more, dataset=str(folder))
    assert shown.exit_code == ExitCode.USAGE
    assert named in shown.stderr
    assert script.seen == []
    assert shown.stdout == ""


@pytest.mark.parametrize("dataset", ["./absent", "absent/images", "/absent"])
def test_a_path_that_is_not_a_folder_is_named(play: Play, dataset: str) -> None:
    script = play()
    shown = stress_test(dataset=dataset)
    assert shown.exit_code == ExitCode.USAGE
    assert f"'{dataset}' is not a folder" in shown.stderr
    assert script.seen == []


def test_captions_without_a_folder_are_rejected(play: Play, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text(json.dumps({"file_name": "bus/2.png", "caption": "a red bus"}))
    script = play()
    assert stress_test("--captions", str(captions)).exit_code == ExitCode.USAGE
    assert script.seen == []


def test_a_folder_without_images_is_rejected(play: Play, tmp_path: Path) -> None:
    play(ok({"datasets": []}))
    shown = stress_test(dataset=str(tmp_path))
    assert shown.exit_code == ExitCode.USAGE
    assert "dataset-empty" in shown.stderr
