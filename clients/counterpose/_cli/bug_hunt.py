"""``counterpose bug-hunt``: find failures that nobody asked about, from a classifier and a label alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from counterpose._cli.classifiers import reachable
from counterpose._cli.contract_options import (
    LABEL_MAP,
    SEARCH,
    SEED,
    STATISTICS,
    STEPS,
    Fields,
    Option,
    request_options,
)
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import Classifiers
from counterpose._cli.spending import SPENDING
from counterpose._cli.tables import unless_empty
from counterpose._cli.terminal import show
from counterpose._sync.client import Client
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary, FailureRate
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.failure_criteria import LowConfidence, NoRelative, NotInTop, TakenFor, TopOne
from counterpose_core.contract.runs import Run
from counterpose_core.contract.sampling_rules import FixedNumber, UntilDecided, UntilFailures
from counterpose_core.errors import InvalidRequest


def _by_name(*models: type[Any]) -> dict[str, type[Any]]:
    return {str(get_args(each.model_fields["name"].annotation)[0]): each for each in models}


CRITERIA = _by_name(TopOne, NoRelative, NotInTop, LowConfidence, TakenFor)
"""The criteria by name."""
SAMPLING_RULES = _by_name(FixedNumber, UntilFailures, UntilDecided)
"""The sampling rules by name."""

DryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Say what it takes and can find, and start nothing.")
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
EXAMPLES = examples(
    "counterpose bug-hunt --classifier leaning-vit --label fly --images 600 --report hunt.html", codes=True
)


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


CRITERION = Option(
    "criterion",
    "NAME",
    more=f"One of {', '.join(CRITERIA)}; some take a value, as in not-in-top=3, low-confidence=0.2, "
    "taken-for=bee",
    read=criterion_named,
    default="top-1",
    panel=STATISTICS,
)


@request_options(
    BugHuntCreate,
    Option("labels", "CLASS", "--label"),
    LABEL_MAP,
    Option("descriptions", "TEXT", "--description", "As 'a photo of a fly at night'"),
    Option("budget.images", "N"),
    Option("budget.minutes", "M"),
    *SPENDING,
    CRITERION,
    Option(
        "sampling",
        "RULE",
        more=f"One of {', '.join(SAMPLING_RULES)}; as in inverse=20 (failures) and sequential=0.02 (rate)",
        read=sampling_named,
        default="fixed",
        panel=STATISTICS,
    ),
    Option("hypotheses", "N", panel=SEARCH),
    Option("held_out", "N", panel=STATISTICS),
    Option("refine", "N", panel=SEARCH),
    Option("clusters", "HOW", panel=SEARCH),
    Option("mentions", "N", panel=STATISTICS),
    Option("words", "HOW", panel=SEARCH),
    Option("vary", "SHARE", panel=SEARCH),
    Option("parents", "CLASS=PARENT", "--parent", "As fly=insect", read=parents_of, panel=STATISTICS),
    STEPS,
    SEED,
)
def bug_hunt(
    classifier: Classifiers,
    fields: Fields,
    *,
    mixture: Mixed = None,
    mixture_images: MixtureImages = 1000,
    dry_run: DryRun = False,
    output: Output,
    client: Client,
) -> None:
    """Find descriptions of images on which classifiers fail (Wiles et al.)."""
    fields["mixture"] = mixture_of(mixture, mixture_images) if mixture else None
    if dry_run:
        specs = reachable(client, classifier, detach=False)
        found = client.bug_hunts.estimate(classifiers=specs, **fields)
        show(found, str(found), output.as_json)
        return
    serve_and_follow(
        client, classifier, lambda specs: client.bug_hunts.create(classifiers=specs, **fields), output
    )


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


def bug_hunt_text(summary: BugHuntSummary) -> str:
    """The verdict, the bugs on held-out images, each label's baseline, the descriptions, and the cost."""
    columns = ("state", "classifier", "bug", "held-out rate", "on your images", "discovery rate", "taken for")
    bugs = [
        (
            bug.state, bug.classifier, bug.description, bug.failure_rate,
            None if bug.at_least is None else f"at least {bug.at_least:.2f}", bug.discovery.rate,
            bug.taken_for,
        )
        for bug in summary.bugs
    ]  # fmt: skip
    explained = [
        (bug.description, bug.mentions, bug.contribution) for bug in summary.bugs if bug.contribution
    ]
    baselines = [
        (each.label, each.classifier, each.failure.rate, _left_out(each.failure))
        for each in summary.baselines
    ]
    edited = [
        (
            each.label, each.classifier,
            f"{each.captions} and {each.lacking} lacking" if each.lacking else str(each.captions),
            f"{each.failure.failures} of {each.failure.rate.n}",
        )
        for each in summary.edited
    ]  # fmt: skip
    tried = [
        (each.prompt, each.source, each.classifier, each.discovery.rate, each.state)
        for each in summary.hypotheses
    ]
    return "\n".join(
        [
            summary.verdict,
            "",
            *unless_empty(columns, bugs),
            *unless_empty(("bug", "in captions of the label", "part of all its images"), explained),
            *unless_empty(("label", "classifier", "baseline rate", "left out"), baselines),
            *unless_empty(("label", "classifier", "edited captions", "failures on their images"), edited),
            *unless_empty(("description", "from", "classifier", "discovery rate", "outcome"), tried),
            *(each.sentence for each in summary.mixtures),
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"images: {summary.images}; cost: {summary.cost}",
            *summary.spending_lines,
            *summary.config.notes,
        ]
    )


def _left_out(rate: FailureRate) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in rate.dropped.items())


def _says_something(summary: BugHuntSummary) -> bool:
    # A description of the user's own is a question that only a bug's state answers.
    tried = summary.hypotheses if not summary.config.request.descriptions else ()
    return bool(tried or summary.mixtures) or any(bug.state in ("breaks", "holds") for bug in summary.bugs)


def _instead(run: Run) -> str:
    return (
        f"`counterpose adversarial-dataset --hunt {run.id}` makes images of its descriptions that "
        "fool classifiers, and they can be exported"
    )


RUNS = RunsOfKind(
    text=bug_hunt_text,
    judge=judged_by(_says_something),
    command=bug_hunt,
    submitted=examples(
        "counterpose submit bug-hunt --cluster gpus --workers 8 --classifier leaning-vit --label fly",
        codes=True,
    ),
    instead=_instead,
)
