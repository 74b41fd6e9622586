"""``counterpose audit``: whether a run keeps its invariants, by the gateway's answers and the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterpose._audit import Audit
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, OneRun, Url
from counterpose._cli.terminal import connected, print_result

Store = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The store's folder, store in the state folder: stored bytes are compared with their digests.",
    ),
]

EXAMPLES = examples("counterpose audit", "counterpose audit 3fa8 --store .counterpose/store --json")


def audit(run: OneRun = "@last", store: Store = None, as_json: AsJson = False, url: Url = None) -> None:
    """Recompute a run's invariants; exit with 1 if one does not hold.

    Every item is counted and has one final state, the list and the results agree, every image is there, and
    every image is marked as synthetic.
    """
    with connected(url) as client:
        found = client.runs.get(run).audit(store)
        print_result(found.model_dump_json(indent=2) if as_json else _text(found))
        raise typer.Exit(ExitCode.PASSED if found.passed else ExitCode.FAILED)


def _text(found: Audit) -> str:
    compared = "" if found.stored is None else f", {found.stored} compared with the store"
    looked_at = f"{found.items} items, {found.images} images{compared}, {found.events} events"
    if found.passed:
        return f"run {found.run} is {found.state} and keeps its invariants: {looked_at}"
    wrong = "\n".join(f"{each.invariant}: {each.what}" for each in found.violations)
    return f"run {found.run} is {found.state} and breaks its invariants: {looked_at}\n{wrong}"
