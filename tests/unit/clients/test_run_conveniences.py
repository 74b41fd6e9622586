"""What a notebook asks of a run: progress while it waits, its report on the screen, its items in a frame."""

from __future__ import annotations

import base64
import builtins
import html
import importlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_core.contract.findings import Finding, Screened
from counterpose_core.errors import InvalidRequest
from fakes.sdk import Session, a_summary, figure, ok, run_answer, summary_answer

ITEM = {
    "id": "i1", "ordinal": 0, "kind": "edit", "item_group": "s", "source_image": "a" * 64, "label": "bus",
    "state": "done", "result": {"image": "b" * 64, "caption": "A bus.", "edited_caption": "A bus in snow."},
}  # fmt: skip
FINDING = Finding(
    number=1, state="suspected", classifier="steady", object_class="bus", edit_type="background",
    removed="grass", added="snow", taken_for="tram", flipped=3, of=4,
    screened=Screened(loss=0.5, n_sources=4, n_images=4, flipped=3), confirmed=None, pairs=[],
    sentence="Buses in snow are called trams.",
)  # fmt: skip


def followed(kind: str, *answers: httpx.Response) -> tuple[Session, Any]:
    """A session and a run of it."""
    session = Session(kind, run_answer(), *answers)
    return session, session(lambda client: client.stress_tests.get("run-1"))


def test_waiting_with_progress_says_how_far_the_run_is(kind: str, capsys: Any) -> None:
    session, run = followed(
        kind, run_answer("in_progress", 1), run_answer("in_progress", 1), run_answer("completed", 3)
    )
    session(lambda _: run.wait(progress=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(":")[1].split(" ·")[0] for line in shown.err.splitlines()] == [
        " 1 of 3 items", " 3 of 3 items",
    ]  # fmt: skip
    assert {request.url.params["timeout"] for request in session.seen[1:]} == {"2.0"}


def test_a_terminal_shows_one_line_that_is_rewritten(
    kind: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    session, run = followed(kind, run_answer("in_progress", 1), run_answer("completed", 3))
    session(lambda _: run.wait(progress=True))
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.count("\r") == 2


def held(name: str, text: str) -> str:
    data = base64.b64encode(text.encode()).decode("ascii")
    return f'<a class="at" download="{name}" href="data:text/plain;charset=utf-8;base64,{data}">{name}</a>'


PAGE = f"<html>{held('findings.csv', 'number,é')} · {held('report.md', '# Ü')}{held('../evil.md', 'no')}"


@pytest.mark.parametrize(
    ("path", "beside"),
    [
        ("night.html", {"night.html", "night.md", "night.findings.csv"}),
        (".", {"report.html", "report.md", "findings.csv"}),
        ("night.txt", {"night.txt"}),
    ],
)
def test_what_a_report_holds_is_written_beside_it(
    kind: str, tmp_path: Path, path: str, beside: set[str]
) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    session, run = followed(kind, httpx.Response(200, text=PAGE))
    saved = session(lambda _: run.save_report(folder / path))
    assert {each.name for each in folder.iterdir()} == beside
    assert {each.name for each in tmp_path.iterdir()} == {"saved"}
    assert saved.read_text(encoding="utf-8") == PAGE
    written = {each.suffix: each.read_text(encoding="utf-8") for each in folder.iterdir()}
    assert (written.get(".csv", "number,é"), written.get(".md", "# Ü")) == ("number,é", "# Ü")


def test_waiting_is_silent_unless_asked(kind: str, capsys: Any) -> None:
    session, run = followed(kind, run_answer("completed", 3))
    session(lambda _: run.wait())
    assert capsys.readouterr().err == ""
    assert session.seen[1].url.params["timeout"] == "25.0"


def test_open_shows_the_report_and_returns_its_file(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    session, run = followed(kind, httpx.Response(200, text="<html>"))
    path = session(lambda _: run.open())
    try:
        assert path.read_text(encoding="utf-8") == "<html>"
        assert path.stat().st_mode & 0o077 == 0
        assert shown == [path.as_uri()]
    finally:
        Path(path).unlink()


def test_items_become_a_frame_with_one_row_each(kind: str) -> None:
    session, run = followed(kind, ok({"items": [ITEM, ITEM | {"id": "i2", "ordinal": 1}]}))
    frame = session(lambda _: run.to_pandas())
    assert list(frame["id"]) == ["i1", "i2"]
    assert frame["result.edited_caption"][0] == "A bus in snow."


def test_findings_become_a_frame_with_one_row_each(kind: str) -> None:
    summary = a_summary(steady=figure()).model_copy(update={"findings": [FINDING]})
    session, run = followed(kind, summary_answer(summary), summary_answer(summary))
    assert session(lambda _: run.findings()) == [FINDING]
    frame = session(lambda _: run.findings_to_pandas())
    assert json.loads(frame[["state", "flipped", "screened.loss"]].to_json(orient="records")) == [
        {"state": "suspected", "flipped": 3, "screened.loss": 0.5}
    ]


def test_without_pandas_a_frame_says_what_to_install(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str, *more: Any) -> Any:
        if name == "pandas":
            raise builtins.ImportError(name)
        return real(name, *more)

    monkeypatch.setattr("importlib.import_module", absent)
    session, run = followed(kind, ok({"items": [ITEM]}))
    with pytest.raises(InvalidRequest, match="pip install pandas"):
        session(lambda _: run.to_pandas())


REPORT = '<!DOCTYPE html><style>body { color: red }</style><main><h1>"steady" & co hold.</h1></main>'


def test_a_notebook_shows_the_first_screen_of_a_run_in_a_frame_without_script() -> None:
    session, run = followed("sync", run_answer("completed", 3), httpx.Response(200, text=REPORT))
    shown = run._repr_html_()
    assert [request.url.path.rpartition("/")[2] for request in session.seen] == ["run-1", "run-1", "report"]
    assert session.seen[-1].url.params["part"] == "first-screen"
    assert shown.startswith('<iframe sandbox="" ')
    (source,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(source) == REPORT
    # The report's own tags must not reach the notebook.
    assert "<style>" not in shown


def test_a_notebook_shows_how_far_a_run_is_that_is_going() -> None:
    session, run = followed("sync", run_answer("in_progress", 1))
    shown = run._repr_html_()
    assert "in progress, 1 of 3 items" in shown
    assert '<progress value="0.3333" max="1"' in shown
    assert len(session.seen) == 2


def test_a_notebook_shows_what_is_known_where_the_gateway_is_gone() -> None:
    missing = httpx.Response(404, text="gone")
    _, run = followed("sync", run_answer("completed", 3), missing)
    assert "3 of 3 items" in run._repr_html_()


def test_an_asyncio_run_shows_its_state_without_a_request() -> None:
    session, run = followed("async")
    assert "queued, 0 of 3 items" in run._repr_html_()
    assert len(session.seen) == 1


def test_a_notebook_shows_findings_as_a_table_of_their_sentences(kind: str) -> None:
    evil = FINDING.model_copy(update={"number": 2, "sentence": "<script>alert(1)</script>"})
    answer = ok(a_summary().model_copy(update={"findings": [FINDING, evil]}).model_dump_json(by_alias=True))
    session, run = followed(kind, answer)
    found = session(lambda _: run.findings())
    assert found == [FINDING, evil]
    shown = found._repr_html_()
    assert "Buses in snow are called trams." in shown
    assert "3 of 4" in shown
    assert "<script>" not in shown
    assert found[:0] == []
    assert "no findings" in type(found)()._repr_html_()
