"""Trials on the rendered world: a scene, one change that was asked for, its exact region, planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from counterpose_core.preservation.arrays import grown
from counterpose_core.preservation.scores import compared, measure
from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_miniature.world.renderer import drawn, object_mask, render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, VALIDATION, scene_for
from evaluation.preservation.planting import VISIBLE, Stretch, difference

_SPLITS = {split.name: split for split in (DEVELOPMENT, VALIDATION)}
ASKED = ("colour", "background", "companion", "kind")
"""The changes with a region; weather and style change all of an image."""
TOUCHED = 2
"""Levels from which on the true change has touched a pixel."""
LARGEST_REGION = 0.9
_CONTROLS = 100_000
_STREAM = 0x9E5E


@dataclass(frozen=True)
class Trial:
    """A source, its true counterfactual and the exact region of the change, by one renderer."""

    source: Pixels
    edited: Pixels
    region: Mask
    attribute: str
    before: Scene
    after: Scene
    rendered: Callable[[Scene], Pixels]


def large(scene: Scene) -> Pixels:
    """Return a scene of 256 x 256 as it is drawn, with grain of two levels."""
    grain = np.random.default_rng([scene.nuisance, _STREAM]).normal(0, 2, (256, 256, 3))
    levels: Pixels = np.rint(np.clip(np.asarray(drawn(scene)) + grain, 0, 255)).astype(np.uint8)
    return levels


def trial(stretch: Stretch, index: int) -> Trial:
    """Return the index-th trial: by turns 64 and 256 pixels, and by turns the changes of `ASKED`."""
    scene = scene_for(_SPLITS[stretch.split], stretch.first + index, DATASET)
    rendered = (render, large)[index % 2]
    generator = np.random.default_rng([scene.nuisance, _STREAM, 1])
    start = index // 2
    source = rendered(scene)
    for attribute in (ASKED[(start + turn) % len(ASKED)] for turn in range(len(ASKED))):
        others = [value for value in VALUES[attribute] if value != getattr(scene, attribute)]
        for value in generator.permutation(others).tolist():
            after = scene.changed(attribute, value)
            edited = rendered(after)
            region = region_of(attribute, scene, after, source, edited)
            # In a sketch a colour is not seen, and some objects are as dark before a night as before a road.
            if region.mean() <= LARGEST_REGION and difference(source, edited, region) >= VISIBLE:
                return Trial(source, edited, region, attribute, scene, after, rendered)
    raise ValueError(f"no change of scene {scene.nuisance} is seen in a part of it")


def region_of(attribute: str, before: Scene, after: Scene, source: Pixels, edited: Pixels) -> Mask:
    """Return where (H, W) a change of this attribute belongs, and all that it touches."""
    touched = np.abs(source.astype(int) - edited).max(axis=-1) > TOUCHED
    objects = _object(before, source) | _object(after, source)
    region = {"background": ~objects, "companion": np.zeros_like(touched)}.get(attribute, objects)
    return np.asarray(region | touched)


def _object(scene: Scene, like: Pixels) -> Mask:
    share = Image.fromarray((object_mask(scene) * 255).astype(np.uint8))
    return np.asarray(share.resize(like.shape[1::-1], Image.Resampling.BILINEAR)) > 0


def rows(stretch: Stretch, index: int) -> Iterator[dict[str, Any]]:
    """Yield what is measured of one trial: as it should be, of nothing, and with each group's next fault."""
    pair = trial(stretch, index)
    generator = np.random.default_rng([pair.before.nuisance, _STREAM, 2])
    names = list(stretch.servers)
    server = names[(index // 2) % len(names)]

    def row(group: str, name: str, image: Pixels, region: Mask | None) -> dict[str, Any]:
        result = compared(pair.source, stretch.servers[server](image, generator), region=region)
        about = {"index": index, "side": len(pair.source), "attribute": pair.attribute, "server": server}
        measured = {
            "group": group,
            "fault": name,
            "region": region is not None,
            "scores": asdict(result.scores),
        }
        if group == "good" and region is None:
            size = result.region.shape[::-1]
            truth = np.asarray(Image.fromarray(pair.region).resize(size, Image.Resampling.NEAREST))
            measured["overlap"] = float((result.region & truth).sum() / (result.region | truth).sum())
        return about | measured

    yield row("good", "none", pair.edited, pair.region)
    yield row("good", "none", pair.edited, None)
    yield row("ignored", "the source again", pair.source, pair.region)
    for group, fault, image in planted(stretch, index, pair, generator):
        yield row(group, fault, image, pair.region)
        if group in ("shift", "zoom"):
            yield row(group, fault, image, None)


def controls(stretch: Stretch, number: int) -> Iterator[dict[str, Any]]:
    """Yield one scene of each size as each server returns it unchanged, of scenes that no trial has."""
    for side, rendered in enumerate((render, large)):
        scene = scene_for(_SPLITS[stretch.split], stretch.first + _CONTROLS + 2 * number + side, DATASET)
        source = rendered(scene)
        nothing = np.zeros(source.shape[:2], dtype=np.bool_)
        generator = np.random.default_rng([scene.nuisance, _STREAM, 3])
        for name, server in stretch.servers.items():
            scores = measure(source, server(source, generator), region=nothing)
            about = {"index": number, "side": len(source), "server": name, "group": "control"}
            yield {**about, "region": True, "scores": asdict(scores)}


def planted(
    stretch: Stretch, index: int, pair: Trial, generator: np.random.Generator
) -> Iterator[tuple[str, str, Pixels]]:
    """Yield the next fault of each group, if it is seen, and an attribute changed that was not asked for."""
    for group, faults in stretch.faults.items():
        names = list(faults)
        # By halves of the index, for the same faults to be planted at both sizes.
        for turn in range(2 if group == "leak" else 1):
            name = names[(index // 2 * (2 if group == "leak" else 1) + turn) % len(names)]
            if (image := faults[name](pair.edited, pair.region, generator)) is not None:
                yield group, name, image
    # A step further each round of changes: else one of them would always be the one that was asked for.
    extra = stretch.over_edited[(index // 2 + index // (2 * len(ASKED))) % len(stretch.over_edited)]
    if extra != pair.attribute and not (len(pair.source) == 256 and extra in ("weather", "style")):
        others = [value for value in VALUES[extra] if value != getattr(pair.after, extra)]
        image = pair.rendered(pair.after.changed(extra, others[int(generator.integers(len(others)))]))
        away = np.abs(image.astype(int) - pair.edited).max(axis=-1) > TOUCHED
        if (
            difference(pair.edited, image, away & ~grown(pair.region, 1)) >= VISIBLE
            and away[~pair.region].mean() > 0.01
        ):
            yield "over-edit", f"{extra} too", image
