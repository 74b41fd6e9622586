"""What a command prints and how it ends: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from pydantic import BaseModel, ValidationError

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.groups import AS_JSON
from counterpose._cli.outcomes import exit_for_error
from counterpose._cli.placement import client_of
from counterpose._files import save_page, write_text
from counterpose._sync.client import Client
from counterpose_core.contract.base import Problem
from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import CounterposeError, InvalidRequest


def print_result(text: str) -> None:
    """Write a result to standard output."""
    sys.stdout.write(f"{text}\n")


def print_note(text: str) -> None:
    """Write anything but a result to standard error, so that ``--json`` output stays valid JSON."""
    sys.stderr.write(f"{text}\n")


def show(body: BaseModel, text: str, as_json: bool) -> None:
    """Write a result as JSON or as text."""
    print_result(body.model_dump_json(indent=2, by_alias=True) if as_json else text)


@contextmanager
def exit_on_error(hint: str = "") -> Iterator[None]:
    """Turn errors into one line and an exit code; ``hint`` is added after an interrupt."""
    try:
        yield
    except CounterposeError as error:
        raise _ended(error) from error
    except ValidationError as error:
        raise _ended(InvalidRequest(in_words(error))) from error
    except KeyboardInterrupt as interrupt:
        # Handled here, not by typer: its exit code 1 would pass for a failed --max-drop.
        print_note(f"interrupted{hint}")
        raise typer.Exit(ExitCode.INTERRUPTED) from interrupt


def print_problem(error: CounterposeError) -> None:
    """Write an error as JSON to standard output: with ``--json``, a program reads there."""
    print_result(Problem.of(error, request_id=error.request_id).model_dump_json(indent=2))


def _ended(error: CounterposeError) -> typer.Exit:
    request = f" (request {error.request_id})" if error.request_id else ""
    print_note(f"{error.code}: {error.detail}{request}")
    if AS_JSON.get():
        print_problem(error)
    return typer.Exit(exit_for_error(error))


@contextmanager
def connected(url: str | None) -> Iterator[Client]:
    """Open a client; errors end the command."""
    with exit_on_error(), client_of(url, print_note) as client:
        yield client


def check_writable(*files: Path | None) -> None:
    """Reject a path that cannot be written, before hours of work instead of after them.

    Raises:
        InvalidRequest: the parent folder is missing.
    """
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise InvalidRequest(f"cannot write to {str(file)!r}: name a file in an existing folder")


def check_image_folder(folder: Path | None) -> None:
    """Reject an output folder that is a file, before any image is downloaded.

    Raises:
        InvalidRequest: the path exists and is not a folder.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"cannot save images to {str(folder)!r}: it is not a folder")


def write_file(file: Path, text: str) -> None:
    """Write a text file and say so.

    Raises:
        InvalidRequest: it cannot be written.
    """
    print_note(f"{write_text(file, text)} written")


def write_report(report: Path, html: str) -> None:
    """Write the report, and beside it what it holds for download.

    Raises:
        InvalidRequest: a file cannot be written.
    """
    print_note(f"report written to {save_page(report, html)}")
