"""``counterpose bug-hunt``: find failures that nobody asked about, from a classifier and a label alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from counterpose._cli.classifiers import reachable
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, Classifiers, Detach, Report, Seed, Steps, Url
from counterpose._cli.tables import bug_hunt_text
from counterpose._cli.terminal import connected, show
from counterpose_core.contract.bug_hunts import VARY, HuntClusters, HuntWords
from counterpose_core.contract.failure_criteria import (
    LowConfidence,
    NoRelative,
    NotInTop,
    TakenFor,
    TopOne,
)
from counterpose_core.contract.sampling_rules import FixedNumber, UntilDecided, UntilFailures
from counterpose_core.errors import InvalidRequest


def _by_name(*models: type[Any]) -> dict[str, type[Any]]:
    return {str(get_args(each.model_fields["name"].annotation)[0]): each for each in models}


CRITERIA = _by_name(TopOne, NoRelative, NotInTop, LowConfidence, TakenFor)
"""The criteria by name."""
SAMPLING_RULES = _by_name(FixedNumber, UntilFailures, UntilDecided)
"""The sampling rules by name."""

Labels = Annotated[
    list[str],
    typer.Option("--label", metavar="CLASS", help="What the images show. Repeatable."),
]
Images = Annotated[int, typer.Option(metavar="N", help="Most images to generate, held-out ones included.")]
Minutes = Annotated[float | None, typer.Option(metavar="M", help="Begin no image after M minutes.")]
CriterionName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What counts as a failure: {', '.join(CRITERIA)}; some take a value, as in not-in-top=3, "
        "low-confidence=0.2, taken-for=bee.",
    ),
]
SamplingName = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help=f"When enough images of a prompt are drawn: {', '.join(SAMPLING_RULES)}; as in "
        "inverse=20 (failures) and sequential=0.02 (rate).",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", metavar="", help="Say what it takes and can find, and start nothing."),
]
Hypotheses = Annotated[int, typer.Option(metavar="N", help="Most descriptions to measure for each label.")]
HeldOut = Annotated[
    int, typer.Option(metavar="N", help="Held-out images of each winner, and of the label alone.")
]
Described = Annotated[
    list[str] | None,
    typer.Option(
        "--description",
        metavar="TEXT",
        help="Measure this description of your own instead of a search, as in 'a photo of a fly at night'. "
        "Repeatable.",
    ),
]
Vary = Annotated[
    float,
    typer.Option(
        metavar="SHARE", help="Share of a label's images to draw from edited captions of the others instead."
    ),
]
Refine = Annotated[
    int, typer.Option(metavar="N", help="Images of each shorter form of a winner; 0 for no refinement.")
]
Mentions = Annotated[
    int,
    typer.Option(metavar="N", help="Captions of the label alone that say how much each bug explains."),
]
Mixed = Annotated[
    list[str] | None,
    typer.Option(
        "--mixture",
        metavar="PROMPT=SHARE",
        help="Measure how often the label fails where so many images have this prompt, as in "
        "'a photo of a <class> in the snow=0.001'; the label alone has the rest. Repeatable.",
    ),
]
MixtureImages = Annotated[
    int, typer.Option(metavar="N", help="Images of each label for its mixture, of the budget.")
]
Words = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="How captions become descriptions: frequency (words of failures), likelihood (sentences that "
        "the captioner finds likeliest), or both.",
    ),
]
Clusters = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="How failures are clustered before they are described: none, predicted (by what they are taken "
        "for), or features (then by their images).",
    ),
]
Parents = Annotated[
    list[str] | None,
    typer.Option("--parent", metavar="CLASS=PARENT", help="Parent of a class, as fly=insect. Repeatable."),
]

EXAMPLES = examples(
    "counterpose bug-hunt --classifier leaning-vit --label boat --images 600 --report hunt.html", codes=True
)


def bug_hunt(
    classifier: Classifiers,
    label: Labels,
    description: Described = None,
    images: Images = 3000,
    minutes: Minutes = None,
    criterion: CriterionName = "top-1",
    sampling: SamplingName = "fixed",
    hypotheses: Hypotheses = 8,
    held_out: HeldOut = 96,
    refine: Refine = 0,
    clusters: Clusters = "none",
    mentions: Mentions = 0,
    mixture: Mixed = None,
    mixture_images: MixtureImages = 1000,
    words: Words = "frequency",
    vary: Vary = VARY,
    parent: Parents = None,
    steps: Steps = None,
    seed: Seed = 0,
    dry_run: DryRun = False,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Find descriptions of images on which classifiers fail (Wiles et al.)."""
    with connected(url) as client:
        output = Output(report=report, detach=detach, as_json=as_json)
        settings: dict[str, Any] = {
            "labels": label,
            "descriptions": description or [],
            "budget": {"images": images} | ({} if minutes is None else {"minutes": minutes}),
            "criterion": criterion_named(criterion),
            "sampling": sampling_named(sampling),
            "hypotheses": hypotheses,
            "held_out": held_out,
            "refine": refine,
            "clusters": named(clusters, HuntClusters),
            "words": named(words, HuntWords),
            "mentions": mentions,
            "mixture": mixture_of(mixture, mixture_images) if mixture else None,
            "vary": vary,
            "parents": parents_of(parent or ()),
            "steps": steps,
            "seed": seed,
        }
        if dry_run:
            found = client.bug_hunts.estimate(classifiers=classifier, **settings)
            show(found, str(found), as_json)
            return
        specs = reachable(client, classifier, detach=detach)
        create_and_follow(
            lambda: client.bug_hunts.create(classifiers=specs, **settings),
            bug_hunt_text,
            output,
            serves_function=specs != classifier,
        )


def named(text: str, ways: Any) -> Any:
    """Return the one of several ways that has this name.

    Raises:
        InvalidRequest: there is no such way.
    """
    if text not in get_args(ways):
        raise InvalidRequest(f"unknown way {text!r}: choose from {', '.join(get_args(ways))}")
    return text


def criterion_named(text: str) -> dict[str, Any]:
    """Return the criterion of a name, or of ``name=value``.

    Raises:
        InvalidRequest: there is no such criterion, or it takes no value, or none is given.
    """
    return _named("criterion", text, CRITERIA)


def sampling_named(text: str) -> dict[str, Any]:
    """Return the sampling rule of a name, or of ``name=value``.

    Raises:
        InvalidRequest: there is no such rule, or it takes no value.
    """
    return _named("sampling rule", text, SAMPLING_RULES)


def _named(what: str, text: str, models: dict[str, type[Any]]) -> dict[str, Any]:
    name, _, value = text.partition("=")
    if name not in models:
        raise InvalidRequest(f"unknown {what} {name!r}: choose from {', '.join(models)}")
    fields = [field for field in models[name].model_fields if field != "name"]
    if value and not fields:
        raise InvalidRequest(f"the {what} {name!r} takes no value: write {name!r} alone")
    if not value and any(models[name].model_fields[field].is_required() for field in fields):
        raise InvalidRequest(f"the {what} {name!r} needs its {fields[0]}: write {name}=…")
    return {"name": name} | ({fields[0]: _value(f"{what} {name!r}", fields[0], value)} if value else {})


def _value(of: str, field: str, text: str) -> str | int | float:
    readers: dict[str, Callable[[str], int | float]] = {
        "k": int, "levels": int, "below": float, "failures": int, "threshold": float
    }  # fmt: skip
    try:
        return readers[field](text) if field in readers else text
    except ValueError as error:
        raise InvalidRequest(f"{text!r} is no {field} of the {of}: give a number") from error


def mixture_of(texts: list[str], images: int) -> dict[str, Any]:
    """Return the mixture of prompts that are written as ``prompt=share``.

    Raises:
        InvalidRequest: a text has no ``=``, or no number behind it.
    """
    components = []
    for text in texts:
        prompt, _, share = text.rpartition("=")
        try:
            components.append({"prompt": prompt, "share": float(share)})
        except ValueError as error:
            raise InvalidRequest(
                f"{text!r} has no share: write PROMPT=SHARE, as 'a photo of a <class> in the snow=0.001'"
            ) from error
    return {"images": images, "components": components}


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
