"""Two published workloads, counted: what each asks of a GPU, and what its own code took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.gpu_minutes.counts import Counts, Operations, Work, read_counts

TERA = 10**12
UTILISATION = 0.35
"""Which part of a maker's dense rate is reached: assumed until it is measured."""
UTILISATIONS = (0.25, 0.5)
"""Its range: what networks of this kind reach (the best published one on an A100 is 0.39)."""
BESIDE_EDITOR = 0.05
"""GPU time of all other services, as a share of the editor's: assumed; their counted operations are 1 %."""
STEPS_OF_GENERATION = 50
FOLDED = 2
"""Samples an evaluation step: with and without the prompt."""


@dataclass(frozen=True)
class Gpu:
    """A maker's dense rates in operations a second, and an assumed price in dollars an hour."""

    name: str
    half: float
    tf32: float
    price: float


GPUS: Mapping[str, Gpu] = {
    "a100": Gpu("A100 80 GB SXM", 312 * TERA, 156 * TERA, 1.50),
    "h100": Gpu("H100 80 GB SXM", 989 * TERA, 494 * TERA, 2.50),
}
A40_PRICE = 0.50
"""Assumed, too: the GPU that the papers' code was timed on."""


@dataclass(frozen=True)
class Workload:
    """A run over a dataset.

    ``images``: source images, or generated ones. ``groups``: item groups in the run; of ``items`` each.
    ``half`` and ``fine``: operations of a group in half precision and in TF32. ``calls`` to services, of
    which ``slow_calls`` are the editor's; 0 for as many as were measured. ``published``: seconds of a GPU
    that the papers' code took for what a group does. ``stored``: images that a group stores, of ``side``
    pixels.
    """

    name: str
    images: int
    groups: int
    items: int
    half: float
    fine: float
    calls: int
    slow_calls: int
    published: float
    published_by: str
    stored: float
    side: int

    def seconds(self, gpu: Gpu, utilisation: float) -> float:
        """Return the GPU time of a group, other services with it."""
        return (1.0 + BESIDE_EDITOR) * (self.half / gpu.half + self.fine / gpu.tf32) / utilisation


IMAGENET_STAR_SHIFTS, IMAGENET_STAR_IMAGES = 23, 50_000
IMAGENET_TRAIN, LANCE_EDITS = 1_281_167, 5
GENERATED_AT_ONCE = 12
"""Images of a group of a shift benchmark with 50 steps: one call of the editor."""
EDITED_ITEMS = LANCE_EDITS + 2
"""With the reconstruction and the placebo, which is edited like the others."""
NULL_TEXT_SECONDS, EDIT_SECONDS = 132.4, 12.9
"""Of one image, on one A40 with SD 1.4 (PIE-Bench's authors): null-text inversion, and an edit of it."""
GENERATION_SECONDS = 5.5
"""Of one 768-pixel image by ImageNet*'s code, a pipeline call each."""


def workloads(counts: Counts | None = None) -> tuple[Workload, ...]:
    """Return ImageNet* and LANCE on ImageNet-1k's training images, the latter with two presets."""
    known = counts or read_counts()
    return (
        _imagenet_star(known.operations["sd21"]),
        *(_lance(known, preset) for preset in ("lance", "quick")),
    )


def _imagenet_star(used: Operations) -> Workload:
    images = IMAGENET_STAR_SHIFTS * IMAGENET_STAR_IMAGES
    return Workload(
        name=f"ImageNet*: {IMAGENET_STAR_IMAGES:,} images x {IMAGENET_STAR_SHIFTS} shifts, SD 2.1 at 768",
        images=images,
        groups=images // GENERATED_AT_ONCE,
        items=GENERATED_AT_ONCE,
        half=GENERATED_AT_ONCE * STEPS_OF_GENERATION * FOLDED * used.forward,
        fine=GENERATED_AT_ONCE * used.decode,
        # Generate, embed the images, embed the texts, classify.
        calls=4,
        slow_calls=1,
        published=GENERATED_AT_ONCE * GENERATION_SECONDS,
        published_by="ImageNet*'s code, one A40-class GPU",
        stored=GENERATED_AT_ONCE,
        side=768,
    )


def _lance(counts: Counts, preset: str) -> Workload:
    found = next(each for each in counts.counted if (each.suite, each.preset) == ("lance", preset))
    used = counts.operations[found.model]
    work = _sum(found.image, found.edit, EDITED_ITEMS - 1)
    return Workload(
        name=f"LANCE: {IMAGENET_TRAIN:,} images x {LANCE_EDITS} edits, SD 1.4, preset `{preset}`",
        images=IMAGENET_TRAIN,
        groups=IMAGENET_TRAIN,
        items=EDITED_ITEMS,
        half=work.forward * used.forward + work.backward * used.backward,
        fine=used.encode + (work.autoencoder - 1) * used.decode,
        calls=0,
        slow_calls=0,
        published=NULL_TEXT_SECONDS + LANCE_EDITS * EDIT_SECONDS,
        published_by="null-text and prompt-to-prompt, one A40",
        stored=work.autoencoder - 1,
        side=512,
    )


def _sum(image: Work, edit: Work, edits: int) -> Work:
    return Work(
        forward=image.forward + edits * edit.forward,
        backward=image.backward + edits * edit.backward,
        autoencoder=image.autoencoder + edits * edit.autoencoder,
    )
