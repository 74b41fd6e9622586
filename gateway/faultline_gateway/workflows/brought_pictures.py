"""Pictures that datasets bring to a benchmark: real ones, scraped ones, and photographs of each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline_core.contract.datasets import Source
from faultline_core.contract.shift_benchmarks import BenchmarkShift, PictureSource, ShiftBenchmarkCreate
from faultline_core.errors import DatasetEmpty, InvalidRequest
from faultline_core.shifts import BASE
from faultline_gateway.workflows.benchmark_conditions import find_condition, pointer


@dataclass(frozen=True)
class BroughtPictures:
    """The sources of each dataset that a benchmark names, in its own order; ``own`` is the interface's."""

    own: str
    sources: Mapping[str, Sequence[Source]]

    def pictures(
        self,
        create: ShiftBenchmarkCreate,
        source: PictureSource,
        condition: BenchmarkShift,
        class_name: str,
    ) -> list[str]:
        """The pictures of a class under a condition that are known beforehand; none of other sources."""
        if source == "real":
            # By id and not by arrival: the same pictures are taken however they came in.
            found = sorted(self.sources[create.validation or self.own], key=lambda each: each.id)
            return _of(found, class_name, create.real) if condition.name == BASE else []
        for text, dataset in _named(create, source).items():
            if find_condition([condition], text) is not None:
                return _of(self.sources[dataset], class_name, create.n)
        return []


def datasets_of(create: ShiftBenchmarkCreate) -> dict[str, str]:
    """The datasets that a request names beside the interface's own, each with where it does."""
    found = {} if create.validation is None else {create.validation: "/validation"}
    for source in ("scraped", "photographs"):
        for text, dataset in _named(create, source).items():
            found.setdefault(dataset, pointer(source, text))
    return found


def check_brought(
    create: ShiftBenchmarkCreate,
    classes: Sequence[str],
    shifts: Sequence[BenchmarkShift],
    brought: BroughtPictures,
) -> None:
    """Hold the sources that are asked for against the datasets that are named for them.

    Raises:
        InvalidRequest: a source has no dataset, a dataset no source; the base has none, or what is no
            condition of this benchmark has one, or a condition has two; or no picture of ``validation`` is
            asked for.
        DatasetEmpty: a dataset has no picture of these classes.
    """
    if create.validation is not None and create.real == 0:
        raise InvalidRequest(
            f"with real 0 no picture of {create.validation!r} is looked at", pointer="/validation"
        )
    named = {"scraped": create.scraped, "photographs": create.photographs, "retrieval": create.retrieval}
    for source, given in named.items():
        if bool(given) != (source in create.sources):
            missing = "names no dataset" if source in create.sources else "is none of the sources"
            raise InvalidRequest(f"{source!r} {missing}", pointer=pointer(source))
    for source in ("scraped", "photographs"):
        datasets = _named(create, source)
        if datasets and BASE not in datasets:
            raise InvalidRequest(
                f"the shifts of {source!r} are held against a dataset of {BASE!r}, and it names none",
                pointer=pointer(source),
            )
        _check_conditions(source, datasets, shifts)
    for dataset, place in datasets_of(create).items():
        if not any(source.label in classes for source in brought.sources[dataset]):
            raise DatasetEmpty(
                f"dataset {dataset!r} has no picture of the benchmark's classes", pointer=place
            )


def _check_conditions(source: str, datasets: Mapping[str, str], shifts: Sequence[BenchmarkShift]) -> None:
    named: dict[str, str] = {}
    for text in datasets:
        condition = find_condition(shifts, text)
        if condition is None:
            raise InvalidRequest(
                f"{text!r} is neither {BASE!r} nor a shift of this benchmark", pointer=pointer(source, text)
            )
        if (other := named.setdefault(condition.name, text)) != text:
            # A shift answers to its name in any case and to its prompt; only one dataset would be looked at.
            raise InvalidRequest(
                f"{text!r} and {other!r} are one condition, and have a dataset each",
                pointer=pointer(source, text),
            )


def _named(create: ShiftBenchmarkCreate, source: str) -> Mapping[str, str]:
    return {"scraped": create.scraped, "photographs": create.photographs}.get(source, {})


def _of(sources: Sequence[Source], class_name: str, most: int) -> list[str]:
    return [source.image for source in sources if source.label == class_name][:most]
