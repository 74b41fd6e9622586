"""Images that a benchmark takes from datasets: real, scraped, and photographs of each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.shift_benchmarks import BenchmarkShift, ImageSourceOrReal, ShiftBenchmarkCreate
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_gateway.methods.shift_benchmark.conditions import find_condition, pointer


@dataclass(frozen=True)
class InputDatasets:
    """The images of each dataset that a benchmark names, in its own order; ``own`` is the interface's."""

    own: str
    sources: Mapping[str, Sequence[Source]]

    @cached_property
    def _by_class(self) -> Mapping[tuple[str, str], Sequence[Source]]:
        """The images of each dataset and class: a cell looks for its own, and there may be 100,000 cells."""
        found: dict[tuple[str, str], list[Source]] = {}
        for dataset, listed in self.sources.items():
            for source in listed:
                found.setdefault((dataset, source.label), []).append(source)
        return found

    def _of(self, dataset: str, class_name: str) -> Sequence[Source]:
        return self._by_class.get((dataset, class_name), ())

    @property
    def groups(self) -> dict[str, str]:
        """Image → its group, of the images that are not independent, with the name of its dataset."""
        return {
            source.image: f"{dataset}/{source.group}"
            for dataset, listed in self.sources.items()
            for source in listed
            if source.group is not None
        }

    def images(
        self,
        create: ShiftBenchmarkCreate,
        image_source: ImageSourceOrReal,
        condition: BenchmarkShift,
        class_name: str,
    ) -> list[str]:
        """The images of a class under a condition, as far as they are known before the run starts."""
        if image_source == "real":
            # Sorted by id: the same images are taken in whatever order they were uploaded.
            real = sorted(self._of(create.validation or self.own, class_name), key=lambda entry: entry.id)
            return [source.image for source in real[: create.real]] if condition.name == BASE else []
        for text, dataset in _named(create, image_source).items():
            if find_condition([condition], text) is not None:
                return [source.image for source in self._of(dataset, class_name)[: create.n]]
        return []


def datasets_of(create: ShiftBenchmarkCreate) -> dict[str, str]:
    """The datasets that a request names in addition to the interface's own, each with its JSON pointer."""
    pointers = {} if create.validation is None else {create.validation: "/validation"}
    for image_source in ("scraped", "photographs"):
        for text, dataset in _named(create, image_source).items():
            pointers.setdefault(dataset, pointer(image_source, text))
    return pointers


def check_datasets(
    create: ShiftBenchmarkCreate,
    classes: Sequence[str],
    shifts: Sequence[BenchmarkShift],
    inputs: InputDatasets,
) -> None:
    """Check that the requested image sources and the datasets named for them match.

    Raises:
        InvalidRequest: an image source has no dataset, a dataset has no image source, the base has no
            dataset, a dataset is for an unknown condition, a condition has two datasets, or ``validation``
            is named with no real images.
        DatasetEmpty: a dataset has no image of these classes.
    """
    if create.validation is not None and create.real == 0:
        raise InvalidRequest(
            f"with real 0 no image of {create.validation!r} is used; raise real", pointer="/validation"
        )
    named = {"scraped": create.scraped, "photographs": create.photographs, "retrieval": create.retrieval}
    for image_source, given in named.items():
        requested = image_source in create.image_sources
        if bool(given) != requested:
            missing = "names no dataset" if requested else "is not one of the image_sources"
            raise InvalidRequest(f"{image_source!r} {missing}", pointer=pointer(image_source))
    for image_source in ("scraped", "photographs"):
        datasets = _named(create, image_source)
        if datasets and BASE not in datasets:
            raise InvalidRequest(
                f"{image_source!r} names no dataset for {BASE!r}; add one to compare the shifts with",
                pointer=pointer(image_source),
            )
        _check_conditions(image_source, datasets, shifts)
    for dataset, place in datasets_of(create).items():
        if not any(source.label in classes for source in inputs.sources[dataset]):
            raise DatasetEmpty(f"dataset {dataset!r} has no image of the benchmark's classes", pointer=place)


def _check_conditions(
    image_source: str, datasets: Mapping[str, str], shifts: Sequence[BenchmarkShift]
) -> None:
    named: dict[str, str] = {}
    for text in datasets:
        condition = find_condition(shifts, text)
        if condition is None:
            raise InvalidRequest(
                f"{text!r} is neither {BASE!r} nor a shift of this benchmark",
                pointer=pointer(image_source, text),
            )
        if (other := named.setdefault(condition.name, text)) != text:
            # A shift can be given by its name in any case or by its prompt; only one dataset would be used.
            raise InvalidRequest(
                f"{text!r} and {other!r} are the same condition; name one dataset for it",
                pointer=pointer(image_source, text),
            )


def _named(create: ShiftBenchmarkCreate, image_source: str) -> Mapping[str, str]:
    return {"scraped": create.scraped, "photographs": create.photographs}.get(image_source, {})
