"""What the command says and how it ends: results on standard output, the rest on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError

from faultline._client import Client
from faultline._files import write_text
from faultline._gate import Exit, exit_for_error
from faultline_core.contract.runs import Run
from faultline_core.errors import FaultlineError, InvalidRequest

Url = Annotated[str | None, typer.Option("--url", envvar="FAULTLINE_URL", help="The gateway.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def say(text: str) -> None:
    """Write a result."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """Write what is no result: with ``--json`` standard output holds JSON and nothing else."""
    sys.stderr.write(f"{text}\n")


def show(body: BaseModel, text: str, as_json: bool) -> None:
    """Write a result as JSON or as text."""
    say(body.model_dump_json(indent=2, by_alias=True) if as_json else text)


def show_runs(runs: Sequence[Run], as_json: bool) -> None:
    """Write a list of runs."""
    if as_json:
        # Through pydantic, not json: times keep the form in which the gateway sends them.
        say(TypeAdapter(list[Run]).dump_json(list(runs), indent=2).decode())
        return
    for run in runs:
        say(f"{run.id}  {run.kind:17}  {run.state:24} {run.dataset}")


@contextmanager
def ending_well(hint: str = "") -> Iterator[None]:
    """Turn errors into one line and an exit code; ``hint`` is said after an interrupt."""
    try:
        yield
    except FaultlineError as error:
        request = f" (request {error.request_id})" if error.request_id else ""
        complain(f"{error.code}: {error.detail}{request}")
        raise typer.Exit(exit_for_error(error)) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        complain(f"invalid-request: {problems}")
        raise typer.Exit(Exit.USAGE) from error
    except KeyboardInterrupt as interrupt:
        # Said here and not left to typer: in 1, as with plain click, it would pass for a failed gate.
        complain(f"interrupted{hint}")
        raise typer.Exit(Exit.INTERRUPTED) from interrupt


@contextmanager
def connected(url: str | None) -> Iterator[Client]:
    """Open a client; errors end the command."""
    with ending_well(), Client(url) as client:
        yield client


def check_writable(report: Path | None) -> None:
    """Refuse a report that could not be written, before hours of work and not after them.

    Raises:
        InvalidRequest: its folder is missing, or a folder stands in its place.
    """
    if report is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        raise InvalidRequest(f"the report cannot be written to {str(report)!r}")


def check_folder(folder: Path | None) -> None:
    """Refuse a folder for pictures where a file stands, before any picture is fetched.

    Raises:
        InvalidRequest: it is no folder.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"the pictures cannot be saved to {str(folder)!r}, which is no folder")


def write_report(report: Path, html: str) -> None:
    """Write the report's file.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    write_text(report, html)
    complain(f"report written to {report}")
