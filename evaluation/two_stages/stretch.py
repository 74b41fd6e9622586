"""A stretch of validation images: its scenes, and the nested and disjoint folders that runs are given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_gateway.methods.stress_test.plan import choose_sources
from counterpose_gateway.records.source_table import SourceTable
from counterpose_miniature.world.scene import VALUES, Scene
from evaluation.validity.sources import image_of

SIZE = 64
"""Pixels of an image's sides."""

SIZES = (48, 96, 160, 400)
"""Numbers of images of a run, all sources counted, screened and fresh."""


@dataclass(frozen=True)
class Folder:
    """The images of one run: the ``part``-th block of ``size`` in the stretch's order, from 0.

    Blocks that start at 0 are nested: the images of the smaller are the first of the larger.
    """

    size: int
    part: int = 0

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"{self.size}" if not self.part else f"{self.size}, part {self.part + 1}"


@dataclass(frozen=True)
class Stretch:
    """Validation scenes of one seed, with the sources that a gateway makes of them."""

    seed: int
    scenes: Sequence[Scene]

    @property
    def dataset_name(self) -> str:
        """The name of their dataset."""
        # Another renderer gives other images, and another name.
        return f"findings-{cache_key(sources=[source.id for source in self.sources])[:16]}"

    @cached_property
    def by_source(self) -> dict[str, int]:
        """The number of each scene by the id of its source."""
        return {source.id: number for number, source in enumerate(self.sources)}

    @cached_property
    def sources(self) -> list[Source]:
        """The sources, one for each scene, as an upload makes them."""
        return [_source(number, scene) for number, scene in enumerate(self.scenes)]

    @cached_property
    def _in_order(self) -> list[Source]:
        # As a request with a limit takes them: evenly over the classes.
        chosen = choose_sources(SourceTable.of(self.sources), self.classes, None)
        return [self.sources[place] for place in chosen.places]

    @property
    def classes(self) -> list[str]:
        """The classes of the dataset, in its order."""
        return sorted(VALUES["object_class"])

    def sources_of(self, folder: Folder) -> list[Source]:
        """The sources of a folder.

        Raises:
            ValueError: the stretch has not so many images.
        """
        start = folder.part * folder.size
        if start + folder.size > len(self._in_order):
            raise ValueError(f"folder {folder.name!r} needs more than {len(self._in_order)} images")
        return self._in_order[start : start + folder.size]

    def dataset_of(self, folder: Folder) -> Dataset:
        """The dataset that a folder would be registered as."""
        ids = sorted(source.id for source in self.sources_of(folder))
        return Dataset(
            name=self.dataset_name,
            classes=self.classes,
            n_sources=folder.size,
            digest=cache_key(classes=self.classes, sources=ids),
            created_at=dt.datetime(2000, 1, 1, tzinfo=dt.UTC),
        )


def _source(number: int, scene: Scene) -> Source:
    image, label = image_of(scene), scene.object_class
    # As the ledger makes it: the content and the label.
    identity = cache_key(image=image, label=label, occurrence=0)
    return Source(id=identity, image=image, label=label, filename=f"{number:05}.png", width=SIZE, height=SIZE)
