"""The conditions of a shift benchmark: the prompt, caption and threshold of the base and of each shift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from counterpose_core.contract.shift_benchmarks import (
    CATALOGUE,
    BenchmarkShift,
    ShiftBenchmarkCreate,
    ThresholdSetter,
)
from counterpose_core.errors import InvalidRequest, PromptTooLong, RequestError
from counterpose_core.shift_benchmark.shifts import BASE, Shift, catalogue, check_distinct, shift_of
from counterpose_core.suite import ScorerSuite
from counterpose_core.text.class_prompts import check_prompt, is_photo
from counterpose_core.text.plain_text import MOST_WORDS, twin_key


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
