"""``faultline export``: a run's images as a dataset that other tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from faultline._cli.options import AsJson, RunId, Url
from faultline._cli.runs import run_of
from faultline._cli.terminal import connected, print_result
from faultline._exported_runs import ExportedRun
from faultline._exports import LAYOUTS, ExportLayout, check_export
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline_core.errors import InvalidRequest

Out = Annotated[Path, typer.Option(metavar="DIR", help="The folder to create; it must not exist yet.")]
Layout = Annotated[str, typer.Option(metavar="LAYOUT", help=f"{', '.join(LAYOUTS)}.")]
Dropped = Annotated[bool, typer.Option("--dropped", metavar="", help="Include images that a filter dropped.")]
Found = Annotated[
    bool,
    typer.Option(
        "--found", metavar="", help="Include a benchmark's photographs; they carry no synthetic-media mark."
    ),
]


def export(
    run_id: RunId,
    out: Out,
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
    found: Found = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Export a run's images with provenance and a dataset card.

    Generated images are marked as synthetic.
    """
    with connected(url) as client:
        check_export(layout, out)
        run = run_of(client, run_id)
        if not isinstance(run, ExportedRun):
            raise InvalidRequest(
                f"run {run_id!r} is a {run.run.kind}, which has no images to export: "
                "export a shift benchmark of it, or use `faultline generate`"
            )
        if isinstance(run, ShiftBenchmark):
            folder = run.export(out, layout=cast("ExportLayout", layout), dropped=dropped, found=found)
        elif found:
            raise InvalidRequest(f"--found needs a shift benchmark, and run {run_id!r} is a {run.run.kind}")
        else:
            folder = run.export(out, layout=cast("ExportLayout", layout), dropped=dropped)
        n_files = sum(1 for path in folder.rglob("*") if path.is_file())
        print_result(_described(folder, layout, n_files, as_json))


def _described(folder: Path, layout: str, n_files: int, as_json: bool) -> str:
    if as_json:
        return json.dumps({"folder": str(folder), "layout": layout, "files": n_files})
    return f"{n_files} files in {folder}"
