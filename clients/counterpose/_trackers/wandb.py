"""An ended run in Weights & Biases: figures with intervals, a table of findings with images, the report."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose._trackers.figures import figures_of, params
from counterpose._trackers.findings import COLUMNS, IMAGES, Row, rows
from counterpose._trackers.start import package, require_ended
from counterpose_core.contract.base import ResponseBody
from counterpose_core.errors import BackendUnavailable, InvalidRequest


def log_to_wandb(
    run: RunHandle[Any, Any],
    *,
    project: str = "counterpose",
    entity: str | None = None,
    mode: str | None = None,
) -> str:
    """Log an ended run to Weights & Biases, and return the id of the run there, which is this run's.

    Its summary gets each figure with ``.low``, ``.high`` and ``.n`` beside it; ``findings`` is a table with
    the images of source and counterfactual, ``report`` the report as HTML. A repeated call writes to the
    same run. A run of your own that is active stays as it is.

    Args:
        run: a run of any kind, which has ended; only a stress test has findings.
        project: created if there is none.
        entity: the team or user; default: that of the account.
        mode: ``offline`` writes to ``./wandb`` for ``wandb sync``; default: what ``WANDB_MODE`` says, else
            online.

    Raises:
        RunNotEnded: the run goes on.
        InvalidRequest: wandb is not installed, or has no account.
        BackendUnavailable: Weights & Biases cannot be reached.
    """
    require_ended(run)
    wandb = package("wandb")
    summary = run.summary()
    try:
        with TemporaryDirectory(prefix="counterpose-wandb-") as folder:
            _log(wandb, run, summary, {"project": project, "entity": entity, "mode": mode}, Path(folder))
    except wandb.errors.UsageError as error:
        raise InvalidRequest(f"wandb refuses: {error}; `wandb login` sets the account") from error
    except wandb.errors.Error as error:
        raise BackendUnavailable(
            f"Weights & Biases did not take the run {run.id!r} ({type(error).__name__}: {error}); nothing of "
            "it is lost, call again, or with mode='offline'"
        ) from error
    return run.id


def _log(
    wandb: Any, run: RunHandle[Any, Any], summary: ResponseBody, place: dict[str, str | None], folder: Path
) -> None:
    # All that the gateway is asked for comes first: a run there is whole or not begun.
    report = run.save_report(folder / "report.html")
    found = list(rows(run, summary))
    logged = wandb.init(
        **place,
        id=run.id,
        name=run.run.name or f"{run.run.kind} {run.id[:8]}",
        job_type=run.run.kind,
        tags=["counterpose", run.run.kind],
        config=dict(params(run.run.resolved_config)) | {"counterpose.page": run.page},
        resume="allow",
        reinit="create_new",
        # Terminal, machine and working folder of whoever calls are no part of the run.
        settings=wandb.Settings(
            console="off",
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
            disable_git=True,
            save_code=False,
        ),
    )
    try:
        verdict = str(getattr(summary, "verdict", "")) or run.run.state
        logged.summary.update(figures_of(summary) | {"verdict": verdict, "state": run.run.state})
        logged.log({"report": wandb.Html(str(report), inject=False)}, commit=not found)
        if found:
            data = [_cells(wandb, row, folder) for row in found]
            logged.log({"findings": wandb.Table(columns=list(COLUMNS), data=data)})
    except BaseException:
        logged.finish(exit_code=1)
        raise
    logged.finish()


def _cells(wandb: Any, row: Row, folder: Path) -> list[Any]:
    """Return the row's cells; each image is a file, which wandb copies."""
    shown = row.values | {
        name: wandb.Image(str(path)) for name, path in zip(IMAGES, row.save(folder), strict=True)
    }
    return [shown[name] for name in COLUMNS]
