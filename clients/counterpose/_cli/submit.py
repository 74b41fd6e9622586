"""``counterpose submit``: the commands of four methods, their runs as jobs of a Ray cluster."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from counterpose._cli import completion
from counterpose._cli.groups import group
from counterpose._cli.kinds import runs_of
from counterpose._cli.placement import placed
from counterpose._cli.terminal import connected, print_note
from counterpose_core.kinds import KINDS

Cluster = Annotated[
    str, typer.Option("--cluster", metavar="NAME", help="One of the clusters that the gateway knows.")
]
Workers = Annotated[
    int,
    typer.Option("--workers", "--shards", metavar="N", min=1, help="Workers that the cluster shall start."),
]
Images = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="DATASET",
        help="A dataset's name, a folder with one subfolder per class, or a URL, such as "
        "s3://bucket/shard-{000000..000099}.tar, which the workers import first.",
        autocompletion=completion.datasets,
    ),
]

Command = Callable[..., None]

app = group("Run a method as a job of a Ray cluster: the command's own options, and where to run it.")


def submitted(command: Command) -> Command:
    """Return a command with the options of another, and those of a job, whose runs are jobs."""
    told, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    by_option = {"dataset": Images, "cluster": Cluster, "workers": Workers}

    def submit(**options: Any) -> None:
        cluster, workers = options.pop("cluster"), options.pop("workers")
        if "://" in str(options.get("dataset", "")):
            options["dataset"] = _imported(options["dataset"], options["url"])
        with placed(cluster, workers):
            command(**options)

    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=by_option[name])
        for name in ("cluster", "workers")
    ]
    more = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=by_option.get(name, hints[name]))
        for name, each in told.parameters.items()
    ]
    submit.__doc__ = command.__doc__
    submit.__signature__ = told.replace(parameters=[*own, *more], return_annotation=None)  # type: ignore[attr-defined]  # read by typer
    submit.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
    return submit


def _imported(address: str, url: str | None) -> str:
    """Ask for the import of a URL and return the name of its dataset; the job's workers do the work."""
    with connected(url) as client:
        dataset = client.datasets.import_from(address, name=_name_of(address))
    print_note(f"dataset {dataset.name}: imported from {address}")
    return dataset.name


def _name_of(address: str) -> str:
    # The same URL is the same dataset: the command again goes on with its import.
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    words = re.findall(r"[A-Za-z0-9]+", address.partition("://")[2])
    return f"{'-'.join(words)[:64].strip('-') or 'images'}-{digest}"


for _kind, _runs in ((kind, runs_of(kind)) for kind in KINDS):
    if _runs.command is not None:
        app.command(_kind, epilog=_runs.submitted)(submitted(_runs.command))
