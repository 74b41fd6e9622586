"""An export is on disk as a whole or not at all, and never outside of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose_core.errors import BackendError, BadBackendOutput, DatasetEmpty, InvalidRequest
from counterpose_core.types import RunKind
from fakes.archives import CARD, FILES, archive, export_answer
from fakes.benchmark_answers import benchmark_answer
from fakes.command import Play, run
from fakes.sdk import BrokenStream, Session, a_run, ok, problem, run_answer

KINDS = get_args(RunKind)
"""In the order in which a run is looked for."""


def exporting(kind: str, *answers: httpx.Response) -> tuple[Session, Any]:
    """A session that has taken up a stress test, and its handle."""
    session = Session(kind, run_answer("completed", 3), *answers)
    return session, session(lambda client: client.stress_tests.get("run-1"))


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_an_export_is_downloaded_and_unpacked(kind: str, tmp_path: Path) -> None:
    session, made = exporting(kind, export_answer())
    target = tmp_path / "new" / "out"
    assert session(lambda _: made.export(target, layout="parquet", dropped=True)) == target
    assert contents(target) == FILES
    request = session.seen[1]
    assert request.url.path == "/v1/runs/run-1/export"
    assert dict(request.url.params) == {"layout": "parquet", "dropped": "true"}
    assert request.extensions["timeout"]["read"] == 3600.0


def test_dropped_images_are_exported_on_request_only(kind: str, tmp_path: Path) -> None:
    session, made = exporting(kind, export_answer())
    session(lambda _: made.export(tmp_path / "out"))
    assert dict(session.seen[1].url.params) == {"layout": "imagefolder"}


def test_an_empty_folder_is_used_and_no_temporary_file_stays(kind: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    session, made = exporting(kind, export_answer())
    session(lambda _: made.export(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert contents(tmp_path / "out") == FILES


@pytest.mark.parametrize("taken", ["file", "folder"])
def test_an_export_never_overwrites(kind: str, tmp_path: Path, taken: str) -> None:
    mine = tmp_path / "out" if taken == "file" else tmp_path / "out" / "mine"
    mine.parent.mkdir(exist_ok=True)
    mine.write_bytes(b"mine")
    session, made = exporting(kind)
    with pytest.raises(InvalidRequest, match="out"):
        session(lambda _: made.export(tmp_path / "out"))
    assert mine.read_bytes() == b"mine"
    assert len(session.seen) == 1


def test_an_unknown_layout_is_named_before_anything_is_sent(kind: str, tmp_path: Path) -> None:
    session, made = exporting(kind)
    with pytest.raises(InvalidRequest, match="'zip'"):
        session(lambda _: made.export(tmp_path / "out", layout="zip"))
    assert len(session.seen) == 1


BROKEN = {
    "cut in a member": export_answer(archive()[:700]),
    "cut between members": export_answer(archive({"data/one.png": b"png"})),
    "no archive": export_answer(b"<html>" * 200),
    "empty": export_answer(b""),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_incomplete_archive_leaves_nothing(kind: str, tmp_path: Path, how: str) -> None:
    session, made = exporting(kind, BROKEN[how])
    with pytest.raises(BadBackendOutput):
        session(lambda _: made.export(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_broken_connection_leaves_nothing(kind: str, tmp_path: Path) -> None:
    session, made = exporting(kind, httpx.Response(200, stream=BrokenStream(archive()[:600])))
    with pytest.raises(BackendError):
        session(lambda _: made.export(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


EVIL = {
    "above": archive({"../evil": b"x"} | FILES),
    "absolute": archive({"/tmp/counterpose-evil": b"x"} | FILES),
    "link": archive(FILES, "data/link"),
}


@pytest.mark.parametrize("how", EVIL)
def test_an_archive_never_writes_outside_the_folder(kind: str, tmp_path: Path, how: str) -> None:
    session, made = exporting(kind, export_answer(EVIL[how]))
    inside = tmp_path / "inside"
    try:
        session(lambda _: made.export(inside / "out"))
    except BadBackendOutput:
        assert not (inside / "out").exists()
    outside = [path for path in tmp_path.rglob("*") if inside not in (path, *path.parents)]
    assert outside == []
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_a_run_without_kept_images_is_an_error(kind: str, tmp_path: Path) -> None:
    session, made = exporting(kind, problem(DatasetEmpty("nothing was kept")))
    with pytest.raises(DatasetEmpty, match="nothing was kept"):
        session(lambda _: made.export(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_the_folder(play: Play, tmp_path: Path) -> None:
    script = play(run_answer(), export_answer())
    shown = run("export", "run-1", "--layout", "webdataset", "--dropped", "--out", str(tmp_path / "out"))
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == f"2 files in {tmp_path / 'out'}\n"
    assert (tmp_path / "out" / CARD).is_file()
    assert dict(script.seen[1].url.params) == {"layout": "webdataset", "dropped": "true"}


def test_the_json_of_the_command_names_folder_and_layout(play: Play, tmp_path: Path) -> None:
    play(run_answer(), export_answer())
    told = json.loads(run("export", "run-1", "--out", str(tmp_path / "out"), "--json").stdout)
    assert told == {"folder": str(tmp_path / "out"), "layout": "imagefolder", "files": 2}


@pytest.mark.parametrize(
    ("run_kind", "config", "said"),
    [
        ("dataset-interface", {}, "export a shift benchmark of it"),
        ("bug-hunt", {}, "`counterpose adversarial-dataset --hunt run-1`"),
        (
            "transfer",
            {"source_kind": "adversarial-dataset", "request": {"source": "run-0"}},
            "`counterpose export run-0`",
        ),
        (
            "transfer",
            {"source_kind": "bug-hunt", "request": {"source": "run-0"}},
            "`counterpose adversarial-dataset --hunt run-0`",
        ),
        ("gate", {"request": {"baseline": "run-0"}}, "`counterpose export run-0`"),
    ],
)
def test_a_run_that_exports_nothing_says_what_to_do_instead(
    play: Play, tmp_path: Path, run_kind: RunKind, config: dict[str, Any], said: str
) -> None:
    found = a_run("completed", 3).model_copy(update={"kind": run_kind, "resolved_config": config})
    script = play(ok(found.model_dump_json()))
    shown = run("export", "run-1", "--out", str(tmp_path / "out"))
    assert shown.exit_code == ExitCode.USAGE
    assert shown.stderr.startswith(f"invalid-request: run 'run-1' is a {run_kind}, which exports no images: ")
    assert said in shown.stderr
    assert len(script.seen) == 1


@pytest.mark.parametrize("more", [["--layout", "zip"], []])
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "out").write_bytes(b"mine")
    script = play()
    assert run("export", "run-1", "--out", str(tmp_path / "out"), *more).exit_code == ExitCode.USAGE
    assert script.seen == []


def test_photographs_of_a_benchmark_are_exported_on_request_only(play: Play, tmp_path: Path) -> None:
    script = play(benchmark_answer("completed"), export_answer())
    shown = run("export", "run-1", "--found", "--out", str(tmp_path / "out"))
    assert shown.exit_code == 0, shown.output
    assert script.seen[-1].url.path == "/v1/runs/run-1/export"
    assert dict(script.seen[-1].url.params) == {"layout": "imagefolder", "found": "true"}


def test_a_stress_test_has_no_photographs_to_export(play: Play, tmp_path: Path) -> None:
    play(run_answer())
    assert run("export", "run-1", "--found", "--out", str(tmp_path / "out")).exit_code == ExitCode.USAGE


def test_a_benchmark_is_exported_from_the_sdk(kind: str, tmp_path: Path) -> None:
    session = Session(kind, benchmark_answer("completed"), export_answer())
    made = session(lambda client: client.shift_benchmarks.get("run-1"))
    session(lambda _: made.export(tmp_path / "out", layout="webdataset", dropped=True))
    assert dict(session.seen[1].url.params) == {"layout": "webdataset", "dropped": "true"}
    assert contents(tmp_path / "out") == FILES
