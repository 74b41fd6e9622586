"""An ended run in trackio: figures with intervals, a table of findings with images, the report."""

from __future__ import annotations

import html
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose._trackers.figures import figures_of, params
from counterpose._trackers.findings import COLUMNS, IMAGES, Row, rows
from counterpose._trackers.start import package, require_ended
from counterpose_core.contract.base import ResponseBody
from counterpose_core.errors import BackendUnavailable, InvalidRequest


def log_to_trackio(
    run: RunHandle[Any, Any], *, project: str = "counterpose", server_url: str | None = None
) -> str:
    """Log an ended run to trackio, and return the name of the run there.

    Metrics are each figure with ``.low``, ``.high`` and ``.n`` beside it; ``findings`` is a table with the
    images of source and counterfactual, ``report`` the report as HTML. A repeated call adds a step to the
    same run. A run of your own that is active stays as it is.

    Args:
        run: a run of any kind, which has ended; only a stress test has findings.
        project: created if there is none.
        server_url: a trackio server; default: ``TRACKIO_SERVER_URL``, else the database of this machine.

    Raises:
        RunNotEnded: the run goes on.
        InvalidRequest: trackio is not installed, or refuses its arguments.
        BackendUnavailable: trackio wrote nothing.
    """
    require_ended(run)
    trackio = package("trackio")
    summary = run.summary()
    with TemporaryDirectory(prefix="counterpose-trackio-") as folder:
        # All that the gateway is asked for comes first: a run there is whole or not begun.
        report = run.save_report(Path(folder) / "report.html")
        found = [_cells(trackio, row, Path(folder)) for row in rows(run, summary)]
        figures = figures_of(summary) | {"report": trackio.Html(report.read_text(encoding="utf-8"))}
        if found:
            figures["findings"] = trackio.Table(columns=list(COLUMNS), data=found)
        return _log(trackio, run, summary, figures, project, server_url)


def _log(
    trackio: Any,
    run: RunHandle[Any, Any],
    summary: ResponseBody,
    figures: dict[str, Any],
    project: str,
    server_url: str | None,
) -> str:
    name = f"{run.run.kind} {run.id}"
    verdict = str(getattr(summary, "verdict", "")) or run.run.state
    active = trackio.context_vars.current_run.get()
    try:
        logged = trackio.init(
            project=project,
            name=name,
            group=run.run.kind,
            server_url=server_url,
            config=dict(params(run.run.resolved_config)) | {"verdict": verdict, "page": run.page},
            resume="allow",
            embed=False,
            # The machine is not part of the run.
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        logged.log(figures)
        logged.finish()
    except ValueError as error:
        raise InvalidRequest(f"trackio refuses: {error}") from error
    finally:
        trackio.context_vars.current_run.set(active)
    # It warns of what it could not write, and goes on.
    if logged._is_local and not _is_written(trackio, project, name):
        raise BackendUnavailable(
            f"trackio wrote nothing of the run {run.id!r} to {trackio.TRACKIO_DIR}; nothing of it is lost, "
            "mend what trackio's warning says and call again"
        )
    return name


def _is_written(trackio: Any, project: str, name: str) -> bool:
    try:
        return any(each.name == name for each in trackio.Api().runs(project))
    except ValueError:
        # There is no such project.
        return False


def _cells(trackio: Any, row: Row, folder: Path) -> list[Any]:
    """Return the row's cells; its page shows texts as Markdown, so they are escaped."""
    told = {name: html.escape(each) if isinstance(each, str) else each for name, each in row.values.items()}
    shown = told | {name: trackio.Image(path) for name, path in zip(IMAGES, row.save(folder), strict=True)}
    return [shown[name] for name in COLUMNS]
