"""The classifiers that a run requests: all must exist and predict the run's classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from counterpose_core.contract.classifiers import ClassifierDescription, ClassifyRequest, DescribeRequest
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    InvalidRequest,
    RequestError,
    UnknownModel,
)
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.services.functions import NO_LABEL_MAP
from counterpose_gateway.services.ports import Services

_SHOWN_CLASSES = 8

LabelMap = Mapping[str, Sequence[str]]
"""For a class of a run, those of a classifier's classes that it sums."""


def shown_classes(classes: Sequence[str]) -> str:
    """Return the first of the classes, as a message names them."""
    shown = ", ".join(classes[:_SHOWN_CLASSES])
    return (shown + (" …" if len(classes) > _SHOWN_CLASSES else "")) or "none"


async def check_classifiers(
    specs: Sequence[str],
    classes: Sequence[str],
    example: str,
    services: Services,
    *,
    label_map: LabelMap = NO_LABEL_MAP,
) -> dict[str, ClassifierDescription]:
    """Return the service's description of each of ``specs`` that it lists.

    A classifier with an unknown class map, or with classes that ``label_map`` joins, is tried on the image
    ``example``.

    Raises:
        UnknownModel: a classifier does not exist.
        ClassMapMismatch: its class map lacks one of ``classes``, it answers with another number of classes,
            or ``label_map`` names a class that is none of them.
    """
    known = await _known(specs, classes, services, label_map)
    for index, spec in enumerate(specs):
        if _is_tried(spec, classes, known, label_map):
            with placed(index):
                await _probe(spec, classes, example, services, label_map)
    return {spec: known[spec] for spec in specs if spec in known}


async def untried_classifiers(
    specs: Sequence[str], classes: Sequence[str], services: Services, *, label_map: LabelMap
) -> list[str]:
    """Check as `check_classifiers` does without an example, and return those that it would try on one."""
    known = await _known(specs, classes, services, label_map)
    return [spec for spec in specs if _is_tried(spec, classes, known, label_map)]


async def _known(
    specs: Sequence[str], classes: Sequence[str], services: Services, label_map: LabelMap
) -> dict[str, ClassifierDescription]:
    _require_mapped(label_map, classes)
    listed = (await services.classifiers.list_classifiers()).classifiers
    # A user's folder may have the name of one of the suite's classifiers, so compare specs.
    known = {classifier.spec: classifier for classifier in listed}
    for index, spec in enumerate(specs):
        await require_known(spec, index, known, services)
    return known


def _is_tried(
    spec: str, classes: Sequence[str], known: Mapping[str, ClassifierDescription], label_map: LabelMap
) -> bool:
    # A known class map needs no call; any other model has to predict an example.
    return bool(label_map) or not _covers(known.get(spec), classes)


async def require_known(spec: str, index: int, known: Iterable[str], services: Services) -> None:
    """Check that a name without a prefix is one of those listed; ``index`` is its place in the request.

    A network of timm by this name is named to the caller, but not taken: it needs its prefix.

    Raises:
        UnknownModel: no classifier has this name.
    """
    listed = sorted(known)
    if spec not in listed and ":" not in spec:
        meant = await _of_timm(spec, services) or did_you_mean(spec, listed)
        others = f"there are {', '.join(listed)}; any other is named" if listed else "name one"
        raise UnknownModel(
            f"no classifier is named {spec!r}{meant}; {others} with its kind, as timm:resnet50",
            pointer=f"/classifiers/{index}",
        )


async def _of_timm(name: str, services: Services) -> str:
    spec = f"timm:{name}"
    try:
        await services.classifiers.describe(DescribeRequest(classifier=spec))
    except (CounterposeError, ValueError):
        return ""
    return f" (did you mean {spec!r}?)"


async def common_classes(
    specs: Sequence[str],
    named: Sequence[str] | None,
    services: Services,
    *,
    label_map: LabelMap = NO_LABEL_MAP,
) -> list[str]:
    """Return the classes among which classifiers choose: those that are named or mapped, or that all have.

    Raises:
        UnknownModel: a classifier does not exist.
        InvalidRequest: the classes of a classifier are not known.
    """
    if named is not None or label_map:
        return list(label_map if named is None else named)
    listed = {each.spec: each.classes for each in (await services.classifiers.list_classifiers()).classifiers}
    common: list[str] | None = None
    for index, spec in enumerate(specs):
        await require_known(spec, index, listed, services)
        known = listed.get(spec)
        if known is None:
            with placed(index):
                known = (await services.classifiers.describe(DescribeRequest(classifier=spec))).classes
        if known is None:
            raise InvalidRequest(
                f"the classes of the classifier {spec!r} are not known; name them in `classes`",
                pointer="/classes",
            )
        common = known if common is None else [name for name in common if name in set(known)]
    return list(common or [])


async def describe_classifiers(
    specs: Sequence[str], listed: Mapping[str, ClassifierDescription], services: Services
) -> dict[str, ClassifierDescription]:
    """Return the description of each of ``specs``, for grouping; ask about those not in ``listed``.

    Raises:
        UnknownModel: a classifier does not exist.
    """
    described: dict[str, ClassifierDescription] = {}
    for index, spec in enumerate(specs):
        description = listed.get(spec)
        if description is None:
            with placed(index):
                description = await services.classifiers.describe(DescribeRequest(classifier=spec))
        # Without the class map, which is as long as the dataset's own for each model.
        described[spec] = description.model_copy(update={"classes": None})
    return described


@contextmanager
def placed(index: int) -> Iterator[None]:
    """Let what is refused of a classifier point to its place in the request."""
    try:
        yield
    except RequestError as error:
        # The service's pointer is for its own request, which our caller never saw.
        error.pointer = f"/classifiers/{index}"
        raise


def _covers(classifier: ClassifierDescription | None, classes: Sequence[str]) -> bool:
    return (
        classifier is not None and classifier.classes is not None and set(classes) <= set(classifier.classes)
    )


def _require_mapped(label_map: LabelMap, classes: Sequence[str]) -> None:
    if strange := [name for name in label_map if name not in set(classes)]:
        raise ClassMapMismatch(
            f"the label map names {strange[0]!r}, which is no class of this run; its keys are among "
            f"{shown_classes(classes)}",
            pointer="/label_map",
        )


async def _probe(
    spec: str, classes: Sequence[str], example: str, services: Services, label_map: LabelMap
) -> None:
    """Check by one prediction that the model loads and its head maps to our classes."""
    request = ClassifyRequest(
        classifier=spec,
        images=[example],
        classes=list(classes),
        label_map={name: list(named) for name, named in label_map.items()},
    )
    [outcome] = (await services.classifiers.classify(request)).outcomes
    # Whatever else fails on one image may succeed on the next; the classes would be wrong on all of them.
    if outcome.problem is not None and outcome.problem.code == ClassMapMismatch.code:
        outcome.unwrap()
