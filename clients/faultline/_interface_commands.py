"""``faultline dataset-interface`` and ``faultline generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from faultline._brought_datasets import UNRESOLVED, dataset_name
from faultline._ending import Detach, Report, see_through
from faultline._folders import read_captions
from faultline._stress_test_commands import Captions, Seed
from faultline._summary_tables import interface_table
from faultline._terminal import AsJson, Url, check_folder, check_writable, complain, connected, say, show
from faultline_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceCreate,
    LearningPrompts,
    Pictures,
)


def dataset_interface(
    dataset: Annotated[str, typer.Argument(help="A dataset's name, or a folder with one folder a class.")],
    token_init: Annotated[
        str, typer.Option(help="What tokens begin as: class-name, or one word for all, such as pet.")
    ] = CLASS_NAME,
    classes: Annotated[
        list[str] | None, typer.Option(help="A class to learn. Repeatable; default: all.")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(help="What a picture is shown under: templates or captions.")
    ] = None,
    vectors: Annotated[int | None, typer.Option(help="Vectors a class; default: the suite's.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of learning; default: the suite's.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many pictures of a class.")] = None,
    seed: Seed = 0,
    captions: Captions = None,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Learn one token for each class of a dataset."""
    with connected(url) as client:
        check_writable(report)
        brought = {} if captions is None else read_captions(captions)
        body = DatasetInterfaceCreate(
            dataset=UNRESOLVED,
            classes=classes or None,
            token_init=token_init,
            prompts=cast("LearningPrompts | None", prompts),
            vectors=vectors,
            steps=steps,
            limit=limit,
            seed=seed,
        )
        settings = {name: getattr(body, name) for name in body.model_fields_set - {"dataset"}}
        run = client.dataset_interfaces.create(dataset=dataset_name(client, dataset, brought), **settings)
        if detach:
            show(run.run, run.id, as_json)
            return
        raise typer.Exit(see_through(run, interface_table, report, as_json))


def generate(
    interface: Annotated[str, typer.Argument(help="The interface's run id.")],
    class_name: Annotated[str, typer.Argument(metavar="CLASS", help="One of its classes.")],
    shift: Annotated[
        str | None,
        typer.Option(help="Such as 'in the snow', a name of the catalogue, or a prompt with <class>."),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="How many pictures, 1 to 64.")] = 8,
    seed: Seed = 0,
    by_name: Annotated[bool, typer.Option(help="Take the class's plain name in place of its token.")] = False,
    steps: Annotated[int | None, typer.Option(help="Denoising steps; default: the suite's.")] = None,
    guidance: Annotated[float | None, typer.Option(help="Guidance; default: the suite's.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Default: the suite's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the pictures into this folder.")] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Show a class of an interface, changed like this."""
    with connected(url) as client:
        check_folder(out)
        pictures = client.dataset_interfaces.get(interface).generate(
            class_name=class_name,
            shift=shift,
            n=n,
            seed=seed,
            by_name=by_name,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
        )
        told = Pictures(pictures=[one.told for one in pictures], model=pictures.model, cost=pictures.cost)
        if as_json:
            show(told, "", as_json)
        for picture in pictures:
            place = picture.image if out is None else str(picture.save(out))
            if not as_json:
                say(f"{place}  seed {picture.seed}  {picture.prompt}")
        complain(f"cost: {pictures.cost}")
