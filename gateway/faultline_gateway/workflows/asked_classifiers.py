"""The classifiers that a run asks for: all there, and all able to tell its classes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from faultline_core.contract.classifiers import ClassifierDescription, ClassifyRequest, DescribeRequest
from faultline_core.errors import RequestError, UnknownModel
from faultline_gateway.ports import Services


async def check_classifiers(
    specs: Sequence[str], classes: Sequence[str], example: str, services: Services
) -> dict[str, ClassifierDescription]:
    """Return what the service tells of each of ``specs``, as far as it lists them.

    ``example`` is a picture that a classifier whose class map is unknown is tried on.

    Raises:
        UnknownModel: a classifier does not exist.
        ClassMapMismatch: its class map lacks one of ``classes``.
    """
    listed = (await services.classifiers.list_classifiers()).classifiers
    # A folder of the user's may be named as one of the suite's: what is asked for is a spec.
    known = {found.spec: found for found in listed}
    for index, spec in enumerate(specs):
        if spec not in known and ":" not in spec:
            there_are = ", ".join(sorted(known))
            raise UnknownModel(
                f"no classifier is named {spec!r}; there are {there_are}", pointer=f"/classifiers/{index}"
            )
        # A known class map settles it without a call; any other model has to show that it can.
        if not _covers(known.get(spec), classes):
            with _placed(index):
                await _probe(spec, classes, example, services)
    return {spec: known[spec] for spec in specs if spec in known}


async def describe_classifiers(
    specs: Sequence[str], listed: Mapping[str, ClassifierDescription], services: Services
) -> dict[str, ClassifierDescription]:
    """Return what is known of each of ``specs``, to group by; those that are not ``listed`` are asked about.

    Raises:
        UnknownModel: a classifier does not exist.
    """
    described: dict[str, ClassifierDescription] = {}
    for index, spec in enumerate(specs):
        found = listed.get(spec)
        if found is None:
            with _placed(index):
                found = await services.classifiers.describe(DescribeRequest(classifier=spec))
        # Without the class map: it is as long as the dataset's own, once a model.
        described[spec] = found.model_copy(update={"classes": None})
    return described


@contextmanager
def _placed(index: int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        # The service's place is one of its own request, which our caller never saw.
        error.pointer = f"/classifiers/{index}"
        raise


def _covers(classifier: ClassifierDescription | None, classes: Sequence[str]) -> bool:
    return (
        classifier is not None and classifier.classes is not None and set(classes) <= set(classifier.classes)
    )


async def _probe(spec: str, classes: Sequence[str], example: str, services: Services) -> None:
    """Settle by one prediction what a list cannot: that the model loads and its head maps to our classes."""
    request = ClassifyRequest(classifier=spec, images=[example], classes=list(classes))
    await services.classifiers.classify(request)
