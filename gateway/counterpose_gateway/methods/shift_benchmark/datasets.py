"""Images that a benchmark takes from datasets: real, scraped, and photographs of each condition.

The conditions of a shift benchmark: the prompt, caption and threshold of the base and of each shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.shift_benchmarks import (
    CATALOGUE,
    BenchmarkShift,
    ImageSourceOrReal,
    ShiftBenchmarkCreate,
    ThresholdSetter,
)
from counterpose_core.errors import DatasetEmpty, InvalidRequest, PromptTooLong, RequestError
from counterpose_core.shift_benchmark.shifts import BASE, Shift, catalogue, check_distinct, shift_of
from counterpose_core.suite import ScorerSuite
from counterpose_core.text.class_prompts import check_prompt, is_photo
from counterpose_core.text.plain_text import MOST_WORDS, twin_key


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


def conditions(
    create: ShiftBenchmarkCreate, classes: Sequence[str], scorer: ScorerSuite
) -> list[BenchmarkShift]:
    """Read the requested shifts; the base comes first.

    Raises:
        InvalidRequest: no shift is requested, one is invalid, two have the same name, or a class is unknown.
        PromptTooLong: a prompt has more words than any text encoder reads.
    """
    shifts = [*_general(create), *_of_classes(create, classes)]
    if not shifts:
        raise InvalidRequest("the benchmark has no shift; name at least one", pointer="/shifts")
    check_distinct(shifts)
    for shift in shifts:
        _check_length(shift, classes)
    return [_base(create, classes), *(_condition(shift, classes, scorer) for shift in shifts)]


def find_condition(shifts: Sequence[BenchmarkShift], text: str) -> BenchmarkShift | None:
    """The condition with this name or this whole prompt, or None."""
    return next(
        (shift for shift in shifts if twin_key(shift.name) == twin_key(text) or shift.prompt == text), None
    )


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901) to a place in the request."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _general(create: ShiftBenchmarkCreate) -> list[Shift]:
    if create.shifts == CATALOGUE:
        return list(catalogue().shifts)
    general = []
    for index, text in enumerate(create.shifts):
        with _pointing_at("shifts", index):
            general.append(shift_of(text))
    return general


def _of_classes(create: ShiftBenchmarkCreate, classes: Sequence[str]) -> list[Shift]:
    """One shift for all classes that have it: both a cat and a dog may be asleep."""
    by_name: dict[str, tuple[Shift, list[str]]] = {}
    for name, texts in create.class_shifts.items():
        if name not in classes:
            raise InvalidRequest(
                f"{name!r} is not a class of this benchmark", pointer=pointer("class_shifts", name)
            )
        for index, text in enumerate(texts):
            with _pointing_at("class_shifts", name, index):
                shift = shift_of(text)
                _, shown_by = by_name.setdefault(twin_key(shift.name), (shift, []))
                if name in shown_by:
                    raise InvalidRequest(f"the class {name!r} lists the shift {text!r} twice; remove one")
                shown_by.append(name)
    return [shift.only_for(shown_by) for shift, shown_by in by_name.values()]


@contextmanager
def _pointing_at(*place: str | int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        error.pointer = pointer(*place)
        raise


def _base(create: ShiftBenchmarkCreate, classes: Sequence[str]) -> BenchmarkShift:
    prompt = catalogue().base if create.base is None else create.base
    with _pointing_at("base"):
        check_prompt(prompt, field="base")
        _check_length(Shift(name="the base", prompt=prompt, caption="a photo"), classes)
    return BenchmarkShift(name=BASE, prompt=prompt, caption="a photo", family=BASE, photo=is_photo(prompt))


def _check_length(shift: Shift, classes: Sequence[str]) -> None:
    # Counts words; the editor counts tokens and rejects an image whose prompt has too many.
    for name in classes:
        if shift.applies_to(name) and len(shift.prompt_for(name).split()) > MOST_WORDS:
            raise PromptTooLong(
                f"the prompt of {shift.name!r} has more than {MOST_WORDS} words with the class {name!r}",
                pointer="/shifts",
            )


def _condition(shift: Shift, classes: Sequence[str], scorer: ScorerSuite) -> BenchmarkShift:
    threshold, set_by = _threshold(shift, scorer)
    return BenchmarkShift(
        name=shift.name,
        prompt=shift.prompt,
        caption=shift.caption,
        family=shift.family,
        photo=not shift.is_style,
        classes=None if shift.classes is None else [name for name in classes if shift.applies_to(name)],
        threshold=threshold,
        threshold_from=set_by,
    )


def _threshold(shift: Shift, scorer: ScorerSuite) -> tuple[float | None, ThresholdSetter | None]:
    own = scorer.shift_thresholds.get(shift.name)
    if own is not None:
        return own, "suite"
    published = None if scorer.checkpoint is None else shift.published_threshold(scorer.checkpoint)
    return published, None if published is None else "published"
