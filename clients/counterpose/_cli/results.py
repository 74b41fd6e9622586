"""``counterpose report`` and ``export``: a run's report as a file, its images as a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from counterpose._cli.groups import examples
from counterpose._cli.kinds import runs_of
from counterpose._cli.options import AsJson, OneRun, ThresholdsGiven, Url, thresholds_given
from counterpose._cli.runs import with_thresholds
from counterpose._cli.terminal import check_writable, connected, print_result
from counterpose._exports import LAYOUTS, ExportLayout, check_export
from counterpose._sync.run_handle import ExportedRun
from counterpose._sync.shift_benchmarks import ShiftBenchmark
from counterpose_core.errors import InvalidRequest

Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to create; it must not exist yet.")
]
ReportFile = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file to write, or a folder.")
]
Share = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS", min=0.02, max=168, help="Print a link that needs no key, for so many hours."
    ),
]
Layout = Annotated[str, typer.Option(metavar="LAYOUT", help=f"{', '.join(LAYOUTS)}.")]
Dropped = Annotated[bool, typer.Option("--dropped", metavar="", help="Include images that a filter dropped.")]
Found = Annotated[
    bool,
    typer.Option(
        "--found", metavar="", help="Include a benchmark's photographs; they carry no synthetic-media mark."
    ),
]


REPORT_EXAMPLES = examples(
    "counterpose report", "counterpose report 3fa8 --out report.html", "counterpose report --share 24"
)
EXPORT_EXAMPLES = examples("counterpose export @last --layout webdataset --out images")


def report(
    run: OneRun = "@last",
    out: ReportFile = Path("report.html"),
    threshold: ThresholdsGiven = None,
    share: Share = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Write a run's report to an HTML file.

    Beside the report of a stress test stand its first screen as Markdown and its findings as CSV. With
    --threshold its recorded scores are judged again; no image is made. With --share nothing is written: a
    link to the report is printed, which needs no key and ends after so many hours.
    """
    with connected(url) as client:
        if share is not None:
            link = client.runs.get(run).share(expires_in=share * 3600)
            print_result(json.dumps({"url": link}) if as_json else link)
            return
        check_writable(out)
        thresholds, found = thresholds_given(threshold), client.runs.get(run)
        if threshold:
            path = str(with_thresholds(found).save_report(out, thresholds=thresholds))
        else:
            path = str(found.save_report(out))
        print_result(json.dumps({"report": path}) if as_json else path)


def export(
    out: Out,
    run: OneRun = "@last",
    layout: Layout = "imagefolder",
    dropped: Dropped = False,
    found: Found = False,
    threshold: ThresholdsGiven = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Export a run's images with provenance and a dataset card.

    Generated images are marked as synthetic.
    """
    with connected(url) as client:
        check_export(layout, out)
        thresholds, exported = thresholds_given(threshold), client.runs.get(run)
        kind, chosen = exported.run.kind, cast("ExportLayout", layout)
        if not isinstance(exported, ExportedRun):
            instead = runs_of(kind).instead
            more = "" if instead is None else f": {instead(exported.run)}"
            raise InvalidRequest(f"run {run!r} is a {kind}, which exports no images{more}")
        if isinstance(exported, ShiftBenchmark):
            folder = exported.export(out, layout=chosen, dropped=dropped, found=found)
        elif found:
            raise InvalidRequest(f"--found needs a shift benchmark, and run {run!r} is a {kind}")
        elif threshold:
            judged = with_thresholds(exported)
            folder = judged.export(out, layout=chosen, dropped=dropped, thresholds=thresholds)
        else:
            folder = exported.export(out, layout=chosen, dropped=dropped)
        n_files = sum(1 for path in folder.rglob("*") if path.is_file())
        print_result(_described(folder, layout, n_files, as_json))


def _described(folder: Path, layout: str, n_files: int, as_json: bool) -> str:
    if as_json:
        return json.dumps({"folder": str(folder), "layout": layout, "files": n_files})
    return f"{n_files} files in {folder}"
