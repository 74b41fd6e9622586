"""What the shell completes: runs, datasets, classifiers and presets, as the gateway knows them now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path

import typer

from counterpose._retries import RetryPolicy
from counterpose._run_calls import listed
from counterpose._run_ids import LAST
from counterpose._sync.client import Client
from counterpose_core.commands import SHORT_ID
from counterpose_core.errors import CounterposeError

ANSWER_S = 3.0
"""Whoever presses a key waits no longer for an answer."""
_NEWEST = 100
"""Runs: older ones are found by `counterpose runs list`."""
_PREFIXES = {
    "timm:": "a network of timm",
    "hf:": "a network of the Hugging Face hub",
    "local:": "a network of the state folder",
    "clip:": "a zero-shot classifier",
    "chat:": "a question of the suite to a vision-language model",
    "oip:": "a model server",
    "py:": "a Python function, as py:module:function",
}

Values = Iterator[tuple[str, str]]
"""Values, each with what it is."""


def _completed(values: Callable[[Client], Values]) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Let typer ask for the values that begin as what is typed; without a gateway there are none."""

    @wraps(values)
    def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        found = list[tuple[str, str]]()
        try:
            with Client(
                context.params.get("url"), timeout=ANSWER_S, retries=RetryPolicy(attempts=1)
            ) as client:
                found += values(client)
        except CounterposeError:
            # The shell shows what is printed in the middle of the line.
            pass
        return [one for one in found if one[0].startswith(incomplete)]

    # typer reads which arguments a function takes from its annotations.
    complete.__annotations__ = {"context": typer.Context, "incomplete": str}
    del complete.__wrapped__
    return complete


@_completed
def runs(client: Client) -> Values:
    """The newest runs, by the beginnings of their ids."""
    yield LAST, "the run that was created last"
    for run in client.send(listed(None, None, limit=_NEWEST)).runs:
        about = f" of {run.dataset}" if run.dataset else ""
        yield run.id[:SHORT_ID], run.name or f"{run.kind}{about}, {run.state}"


@_completed
def classifiers(client: Client) -> Values:
    """The classifiers of the suite, and the prefixes of all others."""
    for one in client.classifiers.list():
        yield one.spec, one.architecture
    yield from _PREFIXES.items()


@_completed
def presets(client: Client) -> Values:
    """The editor's presets."""
    for name in client.services.list().presets:
        yield name, ""


@_completed
def _known_datasets(client: Client) -> Values:
    for one in client.datasets.list():
        yield one.name, f"{one.n_sources} images"


def datasets(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The gateway's datasets, and folders."""
    parent, begun = os.path.split(incomplete)
    with suppress(OSError):
        within = sorted(each.name for each in Path(parent or ".").iterdir() if each.is_dir())
        folders = [os.path.join(parent, name, "") for name in within if name.startswith(begun)]  # noqa: PTH118
        return [*_known_datasets(context, incomplete), *((name, "a folder") for name in folders)]
    return _known_datasets(context, incomplete)
