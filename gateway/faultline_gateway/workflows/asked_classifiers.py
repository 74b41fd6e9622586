"""The classifiers that a run asks for: all there, and all able to tell its classes apart."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.classifiers import ClassifierDescription, ClassifyRequest
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
    known = {name: found for found in listed for name in (found.name, found.spec)}
    for index, spec in enumerate(specs):
        if spec not in known and ":" not in spec:
            there_are = ", ".join(sorted(found.name for found in listed))
            raise UnknownModel(
                f"no classifier is named {spec!r}; there are {there_are}", pointer=f"/classifiers/{index}"
            )
        # A known class map settles it without a call; any other model has to show that it can.
        if not _covers(known.get(spec), classes):
            try:
                await _probe(spec, classes, example, services)
            except RequestError as error:
                # The service's place is one of its own request, which our caller never saw.
                error.pointer = f"/classifiers/{index}"
                raise
    return {spec: known[spec] for spec in specs if spec in known}


def _covers(classifier: ClassifierDescription | None, classes: Sequence[str]) -> bool:
    return (
        classifier is not None and classifier.classes is not None and set(classes) <= set(classifier.classes)
    )


async def _probe(spec: str, classes: Sequence[str], example: str, services: Services) -> None:
    """Settle by one prediction what a list cannot: that the model loads and its head maps to our classes."""
    request = ClassifyRequest(classifier=spec, images=[example], classes=list(classes))
    await services.classifiers.classify(request)
