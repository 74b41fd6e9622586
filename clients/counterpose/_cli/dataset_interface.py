"""``counterpose dataset-interface`` and ``counterpose generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from counterpose._cli.datasets import UNRESOLVED, dataset_name, own_texts, settings_of
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import (
    AsJson,
    Captions,
    ClassName,
    Dataset,
    Detach,
    ImageFolder,
    InterfaceId,
    Names,
    Report,
    Seed,
    Steps,
    Url,
)
from counterpose._cli.tables import interface_text
from counterpose._cli.terminal import check_image_folder, connected, print_note, print_result, show
from counterpose._sync.client import Client
from counterpose._sync.dataset_interfaces import DatasetInterface
from counterpose._token_files import read_token_classes
from counterpose_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceCreate,
    Images,
    LearningPrompts,
)
from counterpose_core.errors import InvalidRequest

TokenInit = Annotated[
    str,
    typer.Option(metavar="WORD", help="Initial token: class-name, or one word for all classes, such as pet."),
]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", metavar="CLASS", help="A class to learn. Repeatable; default: all."),
]
Prompts = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Training prompts: templates or captions; default: the suite's."),
]
Vectors = Annotated[int | None, typer.Option(metavar="N", help="Vectors per class; default: the suite's.")]
LearningSteps = Annotated[
    int | None, typer.Option(metavar="N", help="Training steps per class; default: the suite's.")
]
LimitPerClass = Annotated[int | None, typer.Option(metavar="N", help="Use at most this many images a class.")]
TokenPath = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="PATH",
        help="Published tokens to take in place of learning: a folder or zip archive of <number>.bin, "
        "<class>.bin or bundles.",
    ),
]
TokenClasses = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Classes of the tokens' numbers, one a line; default: ImageNet-1k's, in order."
    ),
]
ShiftPrompt = Annotated[
    str | None,
    typer.Option(
        metavar="SHIFT",
        help="'in the snow', a name of the catalogue, or a prompt with <class>; default: none.",
    ),
]
Count = Annotated[int, typer.Option("--n", metavar="N", help="Number of images, 1 to 64.")]
ByName = Annotated[
    bool, typer.Option("--by-name", metavar="", help="Use the class's plain name instead of its token.")
]
Guidance = Annotated[
    float | None, typer.Option(metavar="SCALE", help="Guidance scale; default: the suite's.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="NAME", help="Diffusion scheduler; default: the suite's.")
]


EXAMPLES = examples("counterpose dataset-interface photos/ --report interface.html", codes=True)
GENERATE_EXAMPLES = examples("counterpose generate @last plate --shift 'in the snow' --n 16 --out plates")


def dataset_interface(
    dataset: Dataset,
    token_init: TokenInit = CLASS_NAME,
    classes: Classes = None,
    prompts: Prompts = None,
    vectors: Vectors = None,
    steps: LearningSteps = None,
    limit: LimitPerClass = None,
    tokens: TokenPath = None,
    token_classes: TokenClasses = None,
    seed: Seed = 0,
    captions: Captions = None,
    names: Names = None,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Learn one token per class of a dataset, or take published ones (Dataset Interfaces)."""
    with connected(url) as client:
        output = Output(report=report, detach=detach, as_json=as_json)
        own = own_texts(captions, names)
        body = DatasetInterfaceCreate(
            dataset=UNRESOLVED,
            classes=classes or None,
            token_init=token_init,
            prompts=cast("LearningPrompts | None", prompts),
            vectors=vectors,
            steps=steps,
            limit=limit,
            tokens=_uploaded(client, tokens, token_classes),
            seed=seed,
        )
        create_and_follow(
            lambda: client.dataset_interfaces.create(
                dataset=dataset_name(client, dataset, own), **settings_of(body)
            ),
            interface_text,
            output,
        )


def _uploaded(client: Client, tokens: Path | None, classes: Path | None) -> dict[str, str] | None:
    if tokens is None:
        if classes is not None:
            raise InvalidRequest("--token-classes names the classes of --tokens, which is missing; give both")
        return None
    known = None if classes is None else read_token_classes(classes)
    return client.token_files.upload(tokens, classes=known).tokens


def generate(
    interface: InterfaceId,
    class_name: ClassName,
    shift: ShiftPrompt = None,
    n: Count = 8,
    seed: Seed = 0,
    by_name: ByName = False,
    steps: Steps = None,
    guidance: Guidance = None,
    scheduler: Scheduler = None,
    out: ImageFolder = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Generate images of one class of an interface, under a shift or without."""
    with connected(url) as client:
        check_image_folder(out)
        learned = client.runs.get(interface, kind="dataset-interface")
        assert isinstance(learned, DatasetInterface)
        generated = learned.generate(
            class_name=class_name,
            shift=shift,
            n=n,
            seed=seed,
            by_name=by_name,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
        )
        answer = Images(
            images=[each.described for each in generated], model=generated.model, cost=generated.cost
        )
        if as_json:
            show(answer, "", as_json)
        for each in generated:
            place = each.image if out is None else str(each.save(out))
            if not as_json:
                print_result(f"{place}\tseed {each.seed}\t{each.prompt}")
        print_note(f"cost: {generated.cost}")
