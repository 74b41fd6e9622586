"""Registration of a pair: the shift and scale that lay the source's kept pixels onto the edited image.

Images are compared by their gradients, whose lengths are levelled: brightness and contrast drop out, and a
strong edge counts no more than a weak one. Orientation correlation (Fitch et al. 2002), normalised by what a
mask keeps (Padfield 2012), finds shift and scale; Gauss-Newton steps (Baker and Matthews 2004, inverse
composition) make them exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.preservation.arrays import Floats, luminance, reduced, size_within
from counterpose_core.transforms.arrays import Mask

Fields = npt.NDArray[np.complexfloating[Any, Any]]
"""Levelled gradients, (H, W): across is the real part, down the imaginary one, |.| < 1."""

COARSE_SIDE, FINE_SIDE = 64, 128
"""Longest sides on which a movement is searched, and made exact: a twentieth of a pixel there is 0.04 %."""
LARGEST_SHIFT = 0.3
"""Share of a side by which an image is searched to be moved."""
SCALES = 1.04 ** np.arange(-8.0, 9.0)
"""Scales that are tried, 0.73 to 1.37; an edge 32 pixels from the middle is then a pixel off at most."""
LEVELLED = 4.0
"""Levels a pixel at which a gradient counts half: above noise, below the edge of a shadow."""
LEAST_TEXTURE = 6.0
"""Pixels' worth of full gradient, at `COARSE_SIDE`, that both directions need."""
LEAST_OVERLAP = 0.5
"""Share of the kept gradients that must still be in the frame."""
LEAST_AGREEMENT = 0.5
"""Below it the images have nothing in common: chance reaches this over all shifts and scales."""
GAIN = 0.04
"""By how much a movement must agree better than rest: less is what chance and rounding give."""
STEPS = 12
LEAST_STEP = 1e-4
"""Agreement that a step must win, or it was the last."""


@dataclass(frozen=True)
class Registration:
    """How the edited image lies on the source: a source's pixel x is found at ``scale`` · x + ``shift``.

    ``shift`` is that of the image's middle, across and down, in shares of width and height; ``scale`` across
    and down. ``agreement`` is the correlation of levelled gradients, -1 to 1, and ``at_rest`` the same if
    nothing is moved. ``visible`` is the share of the source's frame that is still in the edited image.
    """

    shift: tuple[float, float]
    scale: tuple[float, float]
    agreement: float
    at_rest: float
    visible: float

    @property
    def moved(self) -> float:
        """The largest shift, in shares of a side."""
        return max(map(abs, self.shift))

    @property
    def scaled(self) -> float:
        """The largest change of scale; 0.05 is five per cent larger or smaller."""
        return max(abs(axis - 1.0) for axis in self.scale)


def register(source: Floats, edited: Floats, steady: Mask | None = None) -> Registration | None:
    """Return how an edited image is moved and scaled, or None if it has nothing in common with the source.

    Of movements that agree no better than rest by `GAIN`, none is told.

    Args:
        source: levels (H, W, 3), 0 to 255.
        edited: the same of the edited image, in the source's size.
        steady: true (H, W) where nothing should change in the source; by default everywhere.

    Raises:
        ValueError: the source has too little texture, as `has_texture` says.
    """
    everywhere = np.ones(source.shape[:2], dtype=np.bool_) if steady is None else steady
    small, fine = (_Pair.of(source, edited, everywhere, side) for side in (COARSE_SIDE, FINE_SIDE))
    if not small.has_texture:
        raise ValueError("the kept part of the image has too little texture; ask `has_texture` first")
    at_rest = fine.agreement(_REST)
    if at_rest > 1.0 - GAIN:
        return Registration((0.0, 0.0), (1.0, 1.0), at_rest, at_rest, 1.0)
    best = fine.refined(small.refined(small.searched()))
    agreement = fine.agreement(best)
    if agreement < at_rest + GAIN:
        best, agreement = _REST, at_rest
    if agreement < LEAST_AGREEMENT:
        return None
    scale, shift = best[:2], best[2:]
    reach = [
        np.clip([(e - t - 0.5) / s + 0.5 for e in (0.0, 1.0)], 0, 1)
        for s, t in zip(scale, shift, strict=True)
    ]
    visible = float(np.prod([high - low for low, high in reach]))
    across, down = map(float, shift)
    return Registration((across, down), (float(scale[0]), float(scale[1])), agreement, at_rest, visible)


def has_texture(source: Floats, steady: Mask | None = None) -> bool:
    """Return whether the kept part has gradients in both directions, so that any movement shows."""
    everywhere = np.ones(source.shape[:2], dtype=np.bool_) if steady is None else steady
    return _Pair.of(source, source, everywhere, COARSE_SIDE).has_texture


Movement = npt.NDArray[np.float64]
"""Scale across and down, shift across and down, in shares of width and height."""
_REST: Movement = np.array([1.0, 1.0, 0.0, 0.0])


def undone(image: Floats, movement: Registration, order: int = 1) -> tuple[Floats, Mask]:
    """Return an edited image (H, W, C) laid back onto its source, and where (H, W) it has anything to lay."""
    rows, columns, within = _moved_places(image.shape[:2], np.array([*movement.scale, *movement.shift]))
    places = (np.broadcast_to(rows[:, None], within.shape), np.broadcast_to(columns, within.shape))
    planes = [
        scipy.ndimage.map_coordinates(plane, places, order=order, mode="nearest")
        for plane in np.moveaxis(image, -1, 0)
    ]
    return np.stack(planes, axis=-1), within


def _moved_places(shape: tuple[int, ...], movement: Movement) -> tuple[Floats, Floats, Mask]:
    """Return the rows (H,) and columns (W,) at which source pixels are found, and which are in the frame."""
    height, width = shape[:2]
    columns, rows = (
        (0.5 + scale * ((np.arange(side) + 0.5) / side - 0.5) + shift) * side - 0.5
        for side, scale, shift in zip((width, height), movement[:2], movement[2:], strict=True)
    )
    inside = [(places >= 0) & (places <= side - 1) for side, places in ((height, rows), (width, columns))]
    return rows, columns, inside[0][:, None] & inside[1]


def levelled_gradients(image: Floats) -> Fields:
    """Return the gradients of brightness, each divided by its length and `LEVELLED` in a root of squares."""
    bright = scipy.ndimage.gaussian_filter(image, 1.0, mode="nearest")
    down, across = np.gradient(bright)
    lengths = np.sqrt(across**2 + down**2 + LEVELLED**2)
    return np.asarray((across + 1j * down) / lengths, dtype=np.complex64)


@dataclass(frozen=True)
class _Pair:
    """Both images on one grid: brightness of the edited one, gradients of both, and what is kept."""

    bright: Floats
    source: Fields
    edited: Fields
    steady: Floats

    @classmethod
    def of(cls, source: Floats, edited: Floats, steady: Mask, side: int) -> _Pair:
        size = size_within(source.shape, side)
        first, second = (reduced(luminance(image), size) for image in (source, edited))
        # The gradient beside a changed pixel is changed, too.
        core = scipy.ndimage.minimum_filter(
            reduced(steady.astype(np.float32), size) > 0.99, 3, mode="nearest"
        )
        return cls(second, levelled_gradients(first), levelled_gradients(second), core.astype(np.float32))

    @property
    def has_texture(self) -> bool:
        parts = np.stack([self.source.real, self.source.imag]).reshape(2, -1)
        least = np.linalg.eigvalsh((parts * self.steady.ravel()) @ parts.T)[0]
        return bool(least >= LEAST_TEXTURE)

    def searched(self) -> Movement:
        """Return the scale and the shift of whole pixels at which the levelled gradients agree best."""
        height, width = self.bright.shape
        n = scipy.fft.next_fast_len(2 * max(height, width))
        sizes = [(max(8, round(height / scale)), max(8, round(width / scale))) for scale in SCALES]
        stack = np.zeros((2, len(sizes), n, n), dtype=np.complex64)
        for index, (rows, columns) in enumerate(sizes):
            gradients = levelled_gradients(reduced(self.bright, (rows, columns)))
            stack[0, index, :rows, :columns] = gradients
            # One transform for two real fields: the lengths' squares and the frame.
            stack[1, index, :rows, :columns] = np.abs(gradients) ** 2 + 1j
        lengths = self.steady * np.abs(self.source) ** 2
        template = [
            np.conj(scipy.fft.fft2(plane, (n, n)))
            for plane in (self.steady * self.source, self.steady, lengths)
        ]
        fields, energies = scipy.fft.fft2(stack)
        product = scipy.fft.ifft2(template[0] * fields).real
        energy = scipy.fft.ifft2(template[1] * energies).real
        overlap = scipy.fft.ifft2(template[2] * energies).imag
        score = product / np.sqrt(np.maximum(energy * overlap, 1e-3))
        score[overlap < LEAST_OVERLAP * lengths.sum()] = -1.0
        best, movement = -2.0, _REST
        for index, (rows, columns) in enumerate(sizes):
            reach = [_shifts(*sides, n) for sides in ((height, rows), (width, columns))]
            window = score[index][np.ix_(*(indices for indices, _ in reach))]
            down, across = np.unravel_index(int(window.argmax()), window.shape)
            if window[down, across] > best:
                best = window[down, across]
                shift = reach[1][1][across], reach[0][1][down]
                movement = np.array([width / columns, height / rows, *shift])
        return movement

    def agreement(self, movement: Movement) -> float:
        """Return the correlation of the levelled gradients under a movement; -1 out of the frame."""
        return self._agreement(*self._moved(movement))

    def _agreement(self, moved: Fields, weights: Floats) -> float:
        energy, whole = ((share * np.abs(self.source) ** 2).sum() for share in (weights, self.steady))
        if energy < LEAST_OVERLAP * whole:
            return -1.0
        product = (weights * (self.source.conj() * moved).real).sum()
        return float(product / np.sqrt(max(energy * (weights * np.abs(moved) ** 2).sum(), 1e-6)))

    def _moved(self, movement: Movement) -> tuple[Fields, Floats]:
        rows, columns, within = _moved_places(self.bright.shape, movement)
        places = (np.broadcast_to(rows[:, None], within.shape), np.broadcast_to(columns, within.shape))
        real, imaginary = (
            scipy.ndimage.map_coordinates(part, places, order=1, mode="nearest")
            for part in (self.edited.real, self.edited.imag)
        )
        return real + 1j * imaginary, self.steady * within

    def refined(self, movement: Movement) -> Movement:
        """Return the movement near one at which the differences of the gradients are least."""
        height, width = self.bright.shape
        u, v = ((np.arange(side) + 0.5) / side - 0.5 for side in (width, height))
        slopes = [np.gradient(part) for part in (self.source.real, self.source.imag)]
        # By scale and shift of each direction, for both parts of the gradient: (4, 2, pixels).
        steepest = np.array([
            [across * width * u for _, across in slopes],
            [down * height * v[:, None] for down, _ in slopes],
            [across * width for _, across in slopes],
            [down * height for down, _ in slopes],
        ]).reshape(4, 2, -1)  # fmt: skip
        best, agreement, current = movement, -2.0, movement
        for _ in range(STEPS):
            moved, weights = self._moved(current)
            now = self._agreement(moved, weights)
            if now <= agreement + LEAST_STEP:
                break
            best, agreement = current, now
            away = np.stack([(moved - self.source).real, (moved - self.source).imag]).reshape(2, -1)
            # What changed would pull: far differences count less (Geman and McClure 1987).
            trust = weights.ravel() / (1.0 + 4.0 * (away**2).sum(axis=0)) ** 2
            weighted = (steepest * trust).reshape(4, -1)
            matrix = weighted @ steepest.reshape(4, -1).T
            held = matrix + 1e-6 * np.trace(matrix) * np.eye(4)
            step = np.linalg.solve(held, weighted @ away.ravel())
            scale = current[:2] / np.maximum(1.0 + step[:2], 0.5)
            current = np.concatenate([scale, current[2:] - scale * step[2:]])
        return best


def _shifts(side: int, scaled: int, n: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the places in a correlation of n, and what share of a side each shifts the middle by."""
    middle = (scaled - side) / 2
    reach = LARGEST_SHIFT * scaled
    pixels = np.arange(int(np.ceil(middle - reach)), int(np.floor(middle + reach)) + 1)
    return pixels % n, (pixels - middle) / scaled
