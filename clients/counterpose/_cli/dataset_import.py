"""``counterpose datasets import``: fill a dataset from a URL, with a bar of the shards that are read."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from counterpose._cli.contract_options import Fields, Option, request_options
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.options import AsJson, Url
from counterpose._cli.terminal import connected, print_note, show
from counterpose._datasets.imports import describe_import
from counterpose._sync.client import Client
from counterpose_core.contract.datasets import Dataset, ImportCreate

NewName = Annotated[
    str, typer.Argument(metavar="NAME", help="The dataset's name; it is made if there is none.")
]
ImportedName = Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")]
Address = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Tar shards (s3://bucket/shard-{000000..000099}.tar or a .json index), a folder of folders, or "
        "hf://datasets/owner/name.",
    ),
]
DetachImport = Annotated[
    bool, typer.Option("--detach", metavar="", help="Ask for the import and exit; workers go on with it.")
]


@request_options(
    ImportCreate,
    Option("layout", "LAYOUT"),
    Option("classes", "NAME", "--class"),
    Option("split", "NAME"),
    Option("image_column", "NAME"),
    Option("label_column", "NAME"),
    Option("revision", "REV"),
)
def import_dataset(
    name: NewName,
    address: Address,
    fields: Fields,
    *,
    detach: DetachImport = False,
    as_json: AsJson = False,
    client: Client,
) -> None:
    """Fill a dataset from a URL; the gateway's workers read it shard by shard."""
    dataset = client.datasets.import_from(address, name=name, **fields)
    if not detach:
        dataset = _followed(client, dataset, quiet=as_json)
    show(dataset, describe_import(dataset), as_json)
    for rejected in () if dataset.imported is None else dataset.imported.rejected:
        print_note(f"skipped {rejected.filename}: {rejected.code}: {rejected.detail}")
    for failed in () if dataset.imported is None else dataset.imported.failed_shards:
        print_note(f"failed {failed.shard}: {failed.code}: {failed.detail}")
    if dataset.imported is not None and dataset.imported.state == "failed":
        raise typer.Exit(ExitCode.INCOMPLETE)


def cancel_import(name: ImportedName, as_json: AsJson = False, url: Url = None) -> None:
    """Stop an import; what was taken in stays."""
    with connected(url) as client:
        dataset = client.datasets.cancel_import(name)
        show(dataset, describe_import(dataset), as_json)


def _followed(client: Client, dataset: Dataset, *, quiet: bool) -> Dataset:
    console = Console(stderr=True)
    # In a log file a bar is a thousand lines of noise.
    if quiet or not console.is_terminal:
        return client.datasets.wait(dataset.name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("listing", total=None)

        def update(seen: Dataset) -> None:
            if (known := seen.imported) is not None:
                progress.update(
                    task, total=known.shards or None, completed=known.shards_done + known.shards_failed,
                    description=f"{known.images} images · {known.n_rejected} rejected · shards",
                )  # fmt: skip

        return client.datasets.wait(dataset.name, on_look=update)
