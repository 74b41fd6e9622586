"""``faultline export``: a run's pictures as a set that other tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from faultline._ending import RunId
from faultline._exported_runs import ExportedRun
from faultline._exports import ExportLayout, check_export
from faultline._run_commands import run_of
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline._terminal import AsJson, Url, connected, say
from faultline_core.errors import InvalidRequest


def export(
    run_id: RunId,
    out: Annotated[Path, typer.Option(help="The folder to write, which must not be there yet.")],
    layout: Annotated[str, typer.Option(help="imagefolder, parquet or webdataset.")] = "imagefolder",
    dropped: Annotated[bool, typer.Option(help="Also pictures that a filter dropped.")] = False,
    found: Annotated[
        bool, typer.Option(help="Of a benchmark: also photographs, which carry no mark.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Write a run's pictures with their provenance, each marked as synthetic, and a dataset card."""
    with connected(url) as client:
        check_export(layout, out)
        run = run_of(client, run_id)
        if not isinstance(run, ExportedRun):
            raise InvalidRequest(
                f"a {run.run.kind} has no pictures to export: benchmark it, or generate some"
            )
        if isinstance(run, ShiftBenchmark):
            folder = run.export(out, layout=cast("ExportLayout", layout), dropped=dropped, found=found)
        elif found:
            raise InvalidRequest(f"a {run.run.kind} has no pictures that were found")
        else:
            folder = run.export(out, layout=cast("ExportLayout", layout), dropped=dropped)
        files = sum(1 for path in folder.rglob("*") if path.is_file())
        say(_told(folder, layout, files, as_json))


def _told(folder: Path, layout: str, files: int, as_json: bool) -> str:
    if as_json:
        return json.dumps({"folder": str(folder), "layout": layout, "files": files})
    return f"{files} files in {folder}"
