"""``counterpose dataset-interface`` and ``counterpose generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterpose._cli.contract_options import SEED, STEPS, Fields, Option, request_options
from counterpose._cli.datasets import UNRESOLVED, dataset_name, own_texts, settings_of
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import AsJson, Captions, ClassName, Dataset, ImageFolder, InterfaceId, Names
from counterpose._cli.tables import Cell, unless_empty
from counterpose._cli.terminal import check_image_folder, print_note, print_result, show
from counterpose._sync.client import Client
from counterpose._sync.dataset_interfaces import DatasetInterface
from counterpose._token_files import read_token_classes
from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    Images,
    ImagesCreate,
    TokenResult,
)
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest

TokenPath = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="PATH",
        help="Published tokens to take in place of learning: a folder or zip archive of <number>.bin, "
        "<class>.bin or bundles; .safetensors as .bin.",
    ),
]
TokenClasses = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Classes of the tokens' numbers, one a line; default: ImageNet-1k's, in order."
    ),
]

EXAMPLES = examples("counterpose dataset-interface photos/ --report interface.html", codes=True)
GENERATE_EXAMPLES = examples("counterpose generate @last plate --shift 'in the snow' --n 16 --out plates")


@request_options(
    DatasetInterfaceCreate,
    Option("token_init", "WORD"),
    Option("classes", "CLASS", "--class"),
    Option("prompts", "KIND"),
    Option("vectors", "N"),
    STEPS,
    Option("limit", "N"),
    SEED,
)
def dataset_interface(
    dataset: Dataset,
    fields: Fields,
    *,
    tokens: TokenPath = None,
    token_classes: TokenClasses = None,
    captions: Captions = None,
    names: Names = None,
    output: Output,
    client: Client,
) -> None:
    """Learn one token per class of a dataset, or take published ones (Dataset Interfaces)."""
    own = own_texts(captions, names)
    fixed = {"dataset": UNRESOLVED, "tokens": _uploaded(client, tokens, token_classes)}
    settings = settings_of(DatasetInterfaceCreate.model_validate(fixed | fields))
    create_and_follow(
        lambda: client.dataset_interfaces.create(dataset=dataset_name(client, dataset, own), **settings),
        output,
    )


def _uploaded(client: Client, tokens: Path | None, classes: Path | None) -> dict[str, str] | None:
    if tokens is None:
        if classes is not None:
            raise InvalidRequest("--token-classes names the classes of --tokens, which is missing; give both")
        return None
    known = None if classes is None else read_token_classes(classes)
    return client.token_files.upload(tokens, classes=known).tokens


@request_options(
    ImagesCreate,
    Option("shift", "SHIFT"),
    Option("n", "N"),
    SEED,
    Option("by_name"),
    STEPS,
    Option("guidance", "SCALE"),
    Option("scheduler", "NAME"),
)
def generate(
    interface: InterfaceId,
    class_name: ClassName,
    fields: Fields,
    *,
    out: ImageFolder = None,
    as_json: AsJson = False,
    client: Client,
) -> None:
    """Generate images of one class of an interface, under a shift or without."""
    check_image_folder(out)
    learned = client.runs.get(interface, kind="dataset-interface")
    assert isinstance(learned, DatasetInterface)
    generated = learned.generate(class_name=class_name, **fields)
    answer = Images(images=[each.described for each in generated], model=generated.model, cost=generated.cost)
    if as_json:
        show(answer, "", as_json)
    for each in generated:
        place = each.image if out is None else str(each.save(out))
        if not as_json:
            print_result(f"{place}\tseed {each.seed}\t{each.prompt}")
    print_note(f"cost: {generated.cost}")


def interface_text(summary: DatasetInterfaceSummary) -> str:
    """Each learned class with its state, then the classes that are missing, and the cost.

    Similarities are CLIP's cosines, from -1 to 1.
    """
    header = ("class", "state", "images", "steps", "loss", "token", "class name", "real images")
    rows = [(name, *_token_cells(token)) for name, token in summary.tokens.items()]
    missing = [f"missing {name}: {reason}" for name, reason in summary.missing.items()]
    return "\n".join([*unless_empty(header, rows), *missing, "", f"cost: {summary.cost}"])


def _token_cells(token: TokenResult) -> tuple[Cell, ...]:
    loss = f"{token.losses[0]:.3f} to {token.losses[-1]:.3f}" if token.losses else None
    similarities = (token.object_similarity, token.name_similarity, token.real_similarity)
    return (token.state, str(token.n_images), str(token.steps), loss, *similarities)


def _says_something(summary: DatasetInterfaceSummary) -> bool:
    return bool(summary.tokens)


def _instead(run: Run) -> str:
    return "export a shift benchmark of it, or use `counterpose generate`"


RUNS = RunsOfKind(text=interface_text, judge=judged_by(_says_something), instead=_instead)
