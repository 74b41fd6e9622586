"""Commands under a noun, and reading a run again: what each verb asks of the gateway and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose import NotFound
from counterpose._cli.exit_code import ExitCode
from fakes.command import Play, run
from fakes.sdk import a_run, a_summary, figure, ok, problem, run_answer, summary_answer

RUN_ID = "3fa8" + "0" * 28
DATASET = {
    "name": "mine", "classes": ["bus", "tram"], "n_sources": 2, "digest": "d" * 12,
    "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
PAGE = httpx.Response(200, text="<html>")
NONE = ok({"runs": []})


def listed(*ids: str) -> list[httpx.Response]:
    """The lists of all kinds of run: these stress tests and nothing else."""
    runs = [json.loads(a_run("completed", 3, run_id).model_dump_json()) for run_id in ids]
    return [ok({"runs": runs})]


def summed_up() -> httpx.Response:
    """The figures of a finished stress test."""
    return summary_answer(a_summary(steady=figure()))


@pytest.mark.parametrize("arguments", [["show"], ["show", "@last"], ["show", "3fa"], ["runs", "show", "3fa"]])
def test_a_run_is_shown_by_its_beginning_or_as_the_last_one(play: Play, arguments: list[str]) -> None:
    play(*listed(RUN_ID), summed_up())
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    first, second = shown.stdout.splitlines()[:2]
    assert first == f"run {RUN_ID}: stress-test of demo, completed, 3/3 items"
    assert second == "created 2026-01-01 00:00 UTC"
    assert "No drop is proven." in shown.stdout


def test_the_json_of_a_run_has_its_record_and_its_summary(play: Play) -> None:
    play(*listed(RUN_ID), summed_up())
    body = json.loads(run("show", "--json").stdout)
    assert (body["run"]["id"], body["summary"]["verdict"]) == (RUN_ID, "No drop is proven.")
    assert "yield" in body["summary"]


def test_a_beginning_of_two_ids_is_wrong_usage(play: Play) -> None:
    play(*listed(RUN_ID, "3fa9" + "0" * 28))
    shown = run("runs", "cancel", "3fa")
    assert shown.exit_code == ExitCode.USAGE
    assert RUN_ID in shown.stderr


def test_cancelling_needs_a_run(play: Play) -> None:
    play()
    assert run("runs", "cancel").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("arguments", [["open"], ["runs", "open", RUN_ID]])
def test_open_shows_the_report_and_prints_its_file(
    play: Play, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    found = [ok(a_run("completed", 3, RUN_ID).model_dump_json())] if RUN_ID in arguments else listed(RUN_ID)
    play(*found, PAGE)
    path = Path(run(*arguments).stdout.strip())
    assert path.read_text(encoding="utf-8") == "<html>"
    assert shown == [path.as_uri()]
    assert path.name.startswith("counterpose-3fa80000-")


def test_a_report_is_written_to_the_named_file(play: Play, tmp_path: Path) -> None:
    play(run_answer(), PAGE)
    shown = run("report", "run-1", "-o", str(tmp_path / "r.html"))
    assert (shown.exit_code, shown.stdout.strip()) == (0, str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == "<html>"


def test_a_report_is_shared_by_a_link_instead_of_being_written(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = "/v1/runs/run-1/report"
    script = play(run_answer(), ok({"url": f"{path}?signature=5f", "expires_at": "2026-01-01T00:00:00Z"}))
    shown = run("report", "run-1", "--share", "0.5")
    assert shown.stdout.strip().endswith(f":8080{path}?signature=5f")
    assert json.loads(script.seen[1].content) == {"path": path, "expires_in": 1800}
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_is_rejected_before_it_is_made(play: Play, tmp_path: Path) -> None:
    script = play()
    shown = run("report", "run-1", "--out", str(tmp_path / "absent" / "r.html"))
    assert shown.exit_code == ExitCode.USAGE
    assert script.seen == []


def test_runs_are_listed_by_kind_and_number(play: Play) -> None:
    script = play(listed(RUN_ID, "b" * 32)[0])
    shown = run("runs", "list", "--kind", "stress-test", "--limit", "1")
    assert [line.split("\t")[0] for line in shown.stdout.splitlines()] == ["run", RUN_ID]
    assert len(script.seen) == 1


def test_an_unknown_kind_of_run_is_named(play: Play) -> None:
    play()
    shown = run("runs", "list", "--kind", "bug")
    assert shown.exit_code == ExitCode.USAGE
    assert "'bug'" in shown.stderr
    assert "dataset-interface" in shown.stderr


def test_an_absent_run_names_the_command_that_lists_them(play: Play) -> None:
    play(problem(NotFound("absent")))
    shown = run("show", "run-9")
    assert shown.exit_code == ExitCode.USAGE
    assert "`counterpose runs list`" in shown.stderr


def test_a_dataset_is_shown_with_its_classes(play: Play) -> None:
    script = play(ok(DATASET))
    shown = run("datasets", "show", "mine").stdout
    assert script.seen[0].url.path == "/v1/datasets/mine"
    assert "mine: 2 images in 2 classes" in shown
    assert "bus, tram" in shown


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one image."""
    (tmp_path / "photos" / "bus").mkdir(parents=True)
    (tmp_path / "photos" / "bus" / "1.png").write_bytes(b"1")
    return tmp_path / "photos"


def added() -> list[httpx.Response]:
    """The answers of an upload."""
    return [ok(DATASET), ok({"added": 1, "rejected": []}), ok(DATASET)]


def test_a_folder_is_added_under_a_given_name(play: Play, folder: Path) -> None:
    script = play(*added())
    assert run("datasets", "add", str(folder), "--name", "mine").exit_code == 0
    assert json.loads(script.seen[0].content)["name"] == "mine"
    assert json.loads(script.seen[1].content)["sources"][0]["label"] == "bus"


def test_a_folder_without_a_name_is_named_by_its_content(play: Play, folder: Path) -> None:
    script = play(ok({"datasets": []}), *added())
    assert run("datasets", "add", str(folder)).exit_code == 0
    name = json.loads(script.seen[1].content)["name"]
    assert name.startswith("photos-")
    assert script.seen[3].url.path == f"/v1/datasets/{name}"


def test_what_is_no_folder_is_rejected_before_anything_is_sent(play: Play) -> None:
    script = play()
    assert run("datasets", "add", "absent").exit_code == ExitCode.USAGE
    assert script.seen == []


@pytest.mark.parametrize("name", ["leaning-resnet", "short"])
def test_a_listed_classifier_is_checked_by_name_or_spec(play: Play, name: str) -> None:
    known: dict[str, Any] = {
        "spec": "leaning-resnet",
        "name": "short",
        "classes": ["bus", "tram"],
        "resolution": 64,
    }
    play(ok({"classifiers": [known]}))
    shown = run("classifiers", "check", name)
    assert shown.exit_code == 0
    assert "classes: bus, tram" in shown.stdout
    assert "64 pixels" in shown.stdout


def test_a_classifier_that_is_not_listed_is_named(play: Play) -> None:
    play(ok({"classifiers": []}))
    shown = run("classifiers", "check", "timm:absent")
    assert shown.exit_code == ExitCode.USAGE
    assert "'timm:absent'" in shown.stderr


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run("--help").stdout


@pytest.mark.parametrize(
    ("words", "name"), [(["before the retraining"], "before the retraining"), ([], None)]
)
def test_a_run_is_named(play: Play, words: list[str], name: str | None) -> None:
    body = json.loads(a_run("completed", 3, RUN_ID).model_dump_json()) | {"name": name}
    script = play(ok(body), ok(body))
    shown = run("runs", "rename", RUN_ID, *words)
    assert (shown.exit_code, shown.stdout) == (0, f"{name or 'the run has no name'}\n")
    assert json.loads(script.seen[-1].content) == {"name": name}


def test_a_deleted_run_is_named_by_its_id(play: Play) -> None:
    script = play(ok(a_run("completed", 3, RUN_ID).model_dump_json()), httpx.Response(204))
    shown = run("runs", "delete", RUN_ID)
    assert (shown.exit_code, shown.stdout) == (0, f"deleted run {RUN_ID}\n")
    assert script.seen[-1].method == "DELETE"


def test_the_list_shows_names_where_there_are_any(play: Play) -> None:
    body = json.loads(a_run("completed", 3, RUN_ID).model_dump_json())
    play(ok({"runs": [body | {"name": "nightly"}]}))
    assert run("runs", "list").stdout.splitlines()[0].split()[-1] == "name"
    play(ok({"runs": [body]}))
    assert "name" not in run("runs", "list").stdout.splitlines()[0]


def test_ids_become_names_that_are_told_and_sent(play: Play, folder: Path) -> None:
    (folder / "bus").rename(folder / "n02690373")
    script = play(*added())
    shown = run("datasets", "add", str(folder), "--name", "mine")
    assert shown.exit_code == 0
    assert "'n02690373' is 'airliner'" in shown.stderr
    assert json.loads(script.seen[1].content)["sources"][0]["label"] == "airliner"


def test_names_from_a_file_make_another_dataset_and_are_sent(play: Play, folder: Path) -> None:
    names = folder.parent / "names.txt"
    names.write_text("bus school bus\n", encoding="utf-8")
    named = play(ok({"datasets": []}), *added())
    assert run("datasets", "add", str(folder), "--names", str(names)).exit_code == 0
    assert json.loads(named.seen[2].content)["sources"][0]["label"] == "school bus"
    named_as = json.loads(named.seen[1].content)["name"]
    plain = play(ok({"datasets": []}), *added())
    assert run("datasets", "add", str(folder)).exit_code == 0
    assert json.loads(plain.seen[1].content)["name"] != named_as


def test_an_id_without_a_name_is_refused_before_anything_is_sent(play: Play, folder: Path) -> None:
    (folder / "bus").rename(folder / "n00007846")
    script = play()
    shown = run("datasets", "add", str(folder), "--name", "mine")
    assert shown.exit_code == ExitCode.USAGE
    assert "n00007846" in shown.stderr
    assert script.seen == []


def imported(state: str, **figures: object) -> dict[str, object]:
    """A dataset that is imported, as the gateway tells it."""
    known = {
        "url": "s3://bucket/a.tar", "layout": "webdataset", "state": state, "shards": 3, "shards_done": 1,
        "shards_failed": 0, "images": 40, "n_rejected": 0,
    }  # fmt: skip
    return DATASET | {"digest": "", "imported": known | figures}


def test_an_import_is_followed_until_it_has_ended(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpose._datasets.imports.LOOK_S", 0.0)
    ended = imported("done", shards_done=3, images=99)
    script = play(ok(imported("listing")), ok(imported("importing")), ok(ended))
    shown = run("datasets", "import", "mine", "s3://bucket/a.tar", "--class", "bus", "--class", "tram")
    assert shown.exit_code == 0, shown.output
    assert [request.url.path for request in script.seen] == [
        "/v1/datasets/mine/import", "/v1/datasets/mine", "/v1/datasets/mine",
    ]  # fmt: skip
    asked = json.loads(script.seen[0].content)
    assert (asked["url"], asked["classes"], asked["layout"]) == ("s3://bucket/a.tar", ["bus", "tram"], None)
    assert shown.stdout.splitlines() == [
        "mine: 99 images from s3://bucket/a.tar, 0 files rejected",
        "import done: 3 of 3 shards done, 0 failed",
    ]


def test_an_import_that_failed_is_incomplete_and_names_its_shards(play: Play) -> None:
    failed = {"shard": "s3://bucket/a.tar", "code": "shard-unreadable", "detail": "it is gone"}
    refused = {"filename": "a.tar/1.png", "code": "image-undecodable", "detail": "no image"}
    told = imported("failed", shards_failed=1, failed_shards=[failed], rejected=[refused], n_rejected=1)
    play(ok(imported("listing")), ok(told))
    shown = run("datasets", "import", "mine", "s3://bucket/a.tar")
    assert shown.exit_code == ExitCode.INCOMPLETE
    assert "failed s3://bucket/a.tar: shard-unreadable: it is gone" in shown.stderr
    assert "skipped a.tar/1.png: image-undecodable: no image" in shown.stderr


def test_an_import_can_be_cancelled(play: Play) -> None:
    script = play(ok(imported("failed")))
    assert "import failed: 1 of 3 shards" in run("datasets", "cancel-import", "mine").stdout
    assert script.seen[0].url.path == "/v1/datasets/mine/import/cancel"


def test_an_import_can_be_left_to_the_workers(play: Play) -> None:
    script = play(ok(imported("listing")))
    assert run("datasets", "import", "mine", "s3://bucket/a.tar", "--detach").exit_code == 0
    assert len(script.seen) == 1


def test_a_function_is_served_again_for_a_run_that_stopped_without_it(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mynet.py").write_text("def predict(images): return [[1.0, 0.0]] * len(images)\n")
    monkeypatch.chdir(tmp_path)
    script = play(run_answer("failed"), run_answer(), run_answer("completed", 3), summed_up())
    shown = run("runs", "resume", "run-1", "--classifier", "py:mynet:predict")
    assert shown.exit_code == 0, shown.stderr
    asked = script.seen[1]
    assert asked.url.path == "/v1/runs/run-1/resume"
    assert json.loads(asked.content)["functions"].keys() == {"mynet.predict"}
    assert "steady" in shown.stdout


def test_a_run_without_functions_is_resumed_without_a_body(play: Play) -> None:
    script = play(run_answer("failed"), run_answer())
    assert run("runs", "resume", "run-1").stdout == "queued\n"
    assert script.seen[1].content == b""
