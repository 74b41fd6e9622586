"""How far accuracies estimated from generated images are from the truth, by how the prompt named the class.

The paper's headline (DI, section 5): a class's name may mean other images than the dataset's, and their cost
is then attributed to the shift. A learned token is compared with the name on the same classes, shifts, seeds
and models, where true accuracies are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.shift_filter import LEAST_IMAGES
from counterpose_core.statistics.bootstrap import CONFIDENCE, DRAWS, Flags, Floats, bootstrap_mean
from counterpose_core.statistics.bootstrap_result import BootstrapResult
from counterpose_core.statistics.stratified import stratified_bootstrap
from counterpose_core.types import Estimate

_SURE = 2.5
"""An error more than this many standard deviations from 0 has a known sign."""

_TAIL = (1.0 + CONFIDENCE) / 2.0
_NOTHING = Estimate(estimate=None, low=None, high=None, n=0)


@dataclass(frozen=True)
class ImageSourceAnswers:
    """Values (shifts, classes, images, models) on one image source's images, and which of these count."""

    values: NDArray[np.bool_] | NDArray[np.floating]
    kept: Flags


@dataclass(frozen=True)
class Cell:
    """One class under one shift: accuracies averaged over models, true and by image source; n, images."""

    shift: str
    class_: str
    truth: Estimate
    token: Estimate
    class_name: Estimate


@dataclass(frozen=True)
class Confounding:
    """Absolute errors of estimated accuracies, averaged over models and cells.

    ``difference`` is the token's error less the class name's: below 0 the token is nearer to the truth. n
    counts the image source's images; for the difference, the token's.
    """

    token_error: Estimate
    class_name_error: Estimate
    difference: Estimate
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ImageSources:
    """The same models' answers to true images and to both image sources', for the same shifts and classes.

    Images of ``token`` and ``class_name`` at one position share a seed and are drawn together; the true
    ones, whose number may differ, are drawn separately.
    """

    shifts: tuple[str, ...]
    classes: tuple[str, ...]
    truth: ImageSourceAnswers
    token: ImageSourceAnswers
    class_name: ImageSourceAnswers

    def __post_init__(self) -> None:
        named = (len(self.shifts), len(self.classes))
        for each in (self.truth, self.token, self.class_name):
            if each.values.shape[:3] != each.kept.shape or each.kept.shape[:2] != named:
                raise InvalidRequest(f"answers of the shape {each.values.shape} are not of {named}")
        pairs = self.token.values.shape, self.class_name.values.shape
        if pairs[0] != pairs[1] or self.truth.values.shape[3] != pairs[0][3]:
            raise InvalidRequest("token and class name differ in seeds, or an image source in models")


def confounding(
    image_sources: ImageSources,
    generator: np.random.Generator,
    *,
    least: int = LEAST_IMAGES,
    draws: int = DRAWS,
) -> Confounding:
    """Compare both image sources with the truth, over the cells in which each has ``least`` images."""
    every = (image_sources.truth, image_sources.token, image_sources.class_name)
    counted = np.asarray(np.all([each.kept.sum(axis=2) >= max(1, least) for each in every], axis=0))
    if not counted.any():
        return Confounding(_NOTHING, _NOTHING, _NOTHING, ())
    n, n_class_name = (int(each.kept[counted].sum()) for each in every[1:])
    token, class_name = _errors(every, counted, generator, draws)
    return Confounding(
        token_error=_estimate(token.mean, token.too_high, token.too_low, n),
        class_name_error=_estimate(class_name.mean, class_name.too_high, class_name.too_low, n_class_name),
        difference=_estimate(
            token.mean - class_name.mean,
            token.too_high + class_name.too_low,
            token.too_low + class_name.too_high,
            n,
            least=-1.0,
        ),
        cells=tuple(
            Cell(
                image_sources.shifts[shift],
                image_sources.classes[number],
                *(_accuracy(each, (shift, number), generator) for each in every),
            )
            for shift, number in np.argwhere(counted)
        ),
    )


@dataclass(frozen=True)
class _Error:
    """A mean absolute error, and by how much noise may have made it too high or too low (draws,).

    Noise inflates an absolute error: by all of the noise where the error's sign is unknown, and by the
    noise in the direction of the error where it is known.
    """

    mean: float
    too_high: Floats
    too_low: Floats

    @classmethod
    def of(cls, errors: Floats, noise: Floats) -> _Error:
        """From signed errors (cells, models) and their noise (draws, cells, models)."""
        sure = np.abs(errors) > _SURE * noise.std(axis=0)
        along, anyhow = np.sign(errors) * noise, np.abs(noise)
        return cls(
            mean=float(np.abs(errors).mean()),
            too_high=np.where(sure, along, anyhow).mean(axis=(1, 2)),
            too_low=np.where(sure, -along, anyhow).mean(axis=(1, 2)),
        )


def _errors(
    every: Sequence[ImageSourceAnswers], counted: Flags, generator: np.random.Generator, draws: int
) -> list[_Error]:
    """The errors of the second and the third image source against the first, the truth."""
    by_class = [_accuracies(every, number, generator, draws) for number in range(counted.shape[1])]
    cells = (3, len(counted), -1)
    means = np.stack([each.mean.reshape(cells) for each in by_class], axis=2)[:, counted]
    drawn = np.stack([each.draws.reshape(draws, *cells) for each in by_class], axis=3)[:, :, counted]
    noise = drawn.astype(np.float64) - means
    return [_Error.of(means[each] - means[0], noise[:, each] - noise[:, 0]) for each in (1, 2)]


def _accuracies(
    every: Sequence[ImageSourceAnswers], number: int, generator: np.random.Generator, draws: int
) -> BootstrapResult:
    """Accuracies (image sources * shifts, models) on one class; true images are drawn separately."""
    one = slice(number, number + 1)
    places, before = sum(each.kept.shape[2] for each in every[:2]), every[0].kept.shape[2]
    # Drawn separately along the images: true and generated ones do not correspond.
    spans = [slice(0, before), slice(before, places), slice(before, places)]
    values = np.zeros((3, len(every[0].kept), 1, places, every[0].values.shape[3]), dtype=np.float32)
    kept = np.zeros(values.shape[:4], dtype=np.bool_)
    for index, (each, span) in enumerate(zip(every, spans, strict=True)):
        values[index, :, :, span], kept[index, :, :, span] = each.values[:, one], each.kept[:, one]
    values, kept = values.reshape(-1, *values.shape[2:]), kept.reshape(-1, *kept.shape[2:])
    all_of_it = np.ones((len(values), 1), dtype=np.bool_)
    return stratified_bootstrap(values[0], kept[0], values, kept, all_of_it, generator, draws=draws).shifted


def _estimate(mean: float, too_high: Floats, too_low: Floats, n: int, *, least: float = 0.0) -> Estimate:
    low, high = mean - float(np.quantile(too_high, _TAIL)), mean + float(np.quantile(too_low, _TAIL))
    return Estimate(estimate=mean, low=max(least, min(low, mean)), high=min(1.0, max(high, mean)), n=n)


def _accuracy(
    image_source: ImageSourceAnswers, at: tuple[int, int], generator: np.random.Generator
) -> Estimate:
    images = np.asarray(image_source.values[at][image_source.kept[at]], dtype=np.float64).mean(axis=1)
    return bootstrap_mean(images.tolist(), generator, bounds=(0.0, 1.0))
