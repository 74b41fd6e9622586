"""The answers of a run's classifiers, scored by its task."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.scored import Scored
from counterpose_core.errors import CounterposeError
from counterpose_core.tasks import Task, Truth
from counterpose_gateway.runs.calls import Calls, repeated, together

Answers = dict[str, Outcome[Prediction]]


async def classify_images(
    calls: Calls, specs: Sequence[str], images: list[str], classes: Sequence[str], *, spare: bool = False
) -> dict[str, Answers]:
    """Ask every classifier about every image; an image that one cannot read fails without the others.

    With ``spare``, a classifier that is down fails on all images instead, if another one is not.

    Raises:
        BackendError: a classifier is down.
    """
    asked = [partial(_classify, calls, spec, images, classes) for spec in specs]
    if not spare:
        return dict(zip(specs, await together(each() for each in asked), strict=True))
    found = await together(_spared(repeated(each), images) for each in asked)
    errors = [error for _, error in found if error is not None]
    if len(errors) == len(found):
        raise errors[0]
    return dict(zip(specs, (answers for answers, _ in found), strict=True))


async def _spared(
    asked: Coroutine[None, None, Answers], images: Sequence[str]
) -> tuple[Answers, CounterposeError | None]:
    """The answers, or the error as that of every image; not the error alone, as `together` would raise it."""
    try:
        return await asked, None
    except CounterposeError as error:
        return {image: Outcome(problem=Problem.of(error)) for image in images}, error


async def _classify(calls: Calls, spec: str, images: list[str], classes: Sequence[str]) -> Answers:
    request = ClassifyRequest(classifier=spec, images=images, classes=list(classes))
    classify = calls.services.classifiers.classify
    outcomes = await calls.ask("classifiers", classify, request, model=f"classifier:{spec}")
    return dict(zip(images, outcomes, strict=True))


def scored_answers(
    answers: dict[str, Answers], image: str, truth: Truth, task: Task
) -> tuple[dict[str, Scored], dict[str, str]]:
    """Score the answers to one image by the classifier's name, and say why each of the others has none.

    Raises:
        CounterposeError: no classifier could read the image.
    """
    pairs, errors = dict[str, Scored](), dict[str, CounterposeError]()
    for spec, outcomes in answers.items():
        try:
            pairs[spec] = task.scored(outcomes[image].unwrap(), truth)
        except CounterposeError as error:
            errors[spec] = error
    if errors and not pairs:
        raise next(iter(errors.values()))
    return pairs, {spec: error.detail for spec, error in errors.items()}
