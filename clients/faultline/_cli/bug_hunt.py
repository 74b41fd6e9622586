"""``faultline bug-hunt``: find failures that nobody asked about, from a classifier and a label alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from faultline._cli.classifiers import reachable
from faultline._cli.follow import Output, create_and_follow
from faultline._cli.groups import examples
from faultline._cli.options import AsJson, Classifiers, Detach, Report, Seed, Steps, Url
from faultline._cli.tables import bug_hunt_text
from faultline._cli.terminal import connected
from faultline_core.contract.failure_criteria import (
    LowConfidence,
    NoRelative,
    NotInTop,
    TakenFor,
    TopOne,
)
from faultline_core.errors import InvalidRequest

CRITERIA: dict[str, type[Any]] = {
    str(get_args(each.model_fields["name"].annotation)[0]): each
    for each in (TopOne, NoRelative, NotInTop, LowConfidence, TakenFor)
}
"""The criteria by name."""

Labels = Annotated[
    list[str],
    typer.Option("--label", metavar="CLASS", help="What the images show. Repeatable."),
]
Images = Annotated[int, typer.Option(metavar="N", help="Most images to generate, held-out ones included.")]
Minutes = Annotated[float | None, typer.Option(metavar="M", help="Plan no more after M minutes of work.")]
CriterionName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What counts as a failure: {', '.join(CRITERIA)}; some take a value, as in not-in-top=3, "
        "low-confidence=0.2, taken-for=bee.",
    ),
]
Hypotheses = Annotated[int, typer.Option(metavar="N", help="Most descriptions to measure for each label.")]
HeldOut = Annotated[
    int, typer.Option(metavar="N", help="Held-out images of each winner, and of the label alone.")
]
Parents = Annotated[
    list[str] | None,
    typer.Option("--parent", metavar="CLASS=PARENT", help="Parent of a class, as fly=insect. Repeatable."),
]

EXAMPLES = examples(
    "faultline bug-hunt --classifier leaning-vit --label boat --images 600 --report hunt.html", codes=True
)


def bug_hunt(
    classifier: Classifiers,
    label: Labels,
    images: Images = 3000,
    minutes: Minutes = None,
    criterion: CriterionName = "top-1",
    hypotheses: Hypotheses = 8,
    held_out: HeldOut = 96,
    parent: Parents = None,
    steps: Steps = None,
    seed: Seed = 0,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Find descriptions of images on which classifiers fail (Wiles et al.)."""
    with connected(url) as client:
        output = Output(report=report, detach=detach, as_json=as_json)
        specs = reachable(client, classifier, detach=detach)
        create_and_follow(
            lambda: client.bug_hunts.create(
                classifiers=specs,
                labels=label,
                budget={"images": images} | ({} if minutes is None else {"minutes": minutes}),
                criterion=criterion_named(criterion),
                hypotheses=hypotheses,
                held_out=held_out,
                parents=parents_of(parent or ()),
                steps=steps,
                seed=seed,
            ),
            bug_hunt_text,
            output,
            serves_function=specs != classifier,
        )


def criterion_named(text: str) -> dict[str, Any]:
    """Return the criterion of a name, or of ``name=value``.

    Raises:
        InvalidRequest: there is no such criterion, or it takes no value, or none is given.
    """
    name, _, value = text.partition("=")
    if name not in CRITERIA:
        raise InvalidRequest(f"unknown criterion {name!r}: choose from {', '.join(CRITERIA)}")
    fields = [field for field in CRITERIA[name].model_fields if field != "name"]
    if value and not fields:
        raise InvalidRequest(f"the criterion {name!r} takes no value: write {name!r} alone")
    if not value and any(CRITERIA[name].model_fields[field].is_required() for field in fields):
        raise InvalidRequest(f"the criterion {name!r} needs its {fields[0]}: write {name}=…")
    return {"name": name} | ({fields[0]: _value(name, fields[0], value)} if value else {})


def _value(criterion: str, field: str, text: str) -> str | int | float:
    readers: dict[str, Callable[[str], int | float]] = {"k": int, "below": float}
    try:
        return readers[field](text) if field in readers else text
    except ValueError as error:
        raise InvalidRequest(
            f"{text!r} is no {field} of the criterion {criterion!r}: give a number"
        ) from error


def parents_of(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Return the parents that are written as ``class=parent``.

    Raises:
        InvalidRequest: a text has no ``=``.
    """
    found = {}
    for text in texts:
        name, mark, parent = text.partition("=")
        if not mark or not name or not parent:
            raise InvalidRequest(f"{text!r} names no parent: write CLASS=PARENT, as fly=insect")
        found[name] = parent
    return found
