"""The answers of classifiers to the bank's images, computed once for each image and classifier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.contract.scored import Scored
from counterpose_core.images.codecs import decode_image
from counterpose_core.tasks import Truth, classification_of
from counterpose_gateway.runs.stores import Store
from counterpose_miniature.training.stage import write_atomically
from evaluation.validity.contestants import Contestant
from evaluation.validity.measures import Floats
from evaluation.validity.predictors import predicting
from evaluation.validity.truth import CLASSES

_BATCH = 256
_TOP = 5


class Answers:
    """p of every class for images by their names, for each classifier; kept in a folder."""

    def __init__(self, entrants: Sequence[Contestant], store: Store, folder: Path) -> None:
        self._entrants = {one.spec: one for one in entrants}
        self._store, self._folder = store, folder
        self._known: dict[str, dict[str, Floats]] = {}

    def of(self, images: Iterable[tuple[str, str]], specs: Sequence[str]) -> dict[str, dict[str, Scored]]:
        """The answers to images, given as (name, true class), by image and classifier."""
        labels = dict(images)
        for spec in tqdm(specs, desc="answers", leave=False):
            self._answer(spec, list(labels))
        return {
            image: {spec: _pair(self._known[spec][image], label) for spec in specs}
            for image, label in labels.items()
        }

    def _answer(self, spec: str, images: Sequence[str]) -> None:
        known = self._known.setdefault(spec, self._read(spec))
        missing = [image for image in images if image not in known]
        if not missing:
            return
        with predicting(self._entrants[spec]) as predict:
            for start in range(0, len(missing), _BATCH):
                names = missing[start : start + _BATCH]
                pixels = np.stack([decode_image(self._store.get(name)) for name in names])
                known.update(zip(names, predict(pixels), strict=True))
        self._write(spec, known)

    def _path(self, spec: str) -> Path:
        return self._folder / f"{self._entrants[spec].digest[:16]}.npz"

    def _read(self, spec: str) -> dict[str, Floats]:
        path = self._path(spec)
        if not path.exists():
            return {}
        with np.load(path) as held:
            return dict(zip(held["images"].tolist(), held["p"], strict=True))

    def _write(self, spec: str, known: Mapping[str, Floats]) -> None:
        path = self._path(spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.stem}.part.npz")
        np.savez(part, images=np.array(list(known)), p=np.stack(list(known.values())))
        write_atomically(path, part.read_bytes())
        part.unlink()


def _pair(p: Floats, label: str) -> Scored:
    best = np.argsort(-p, kind="stable")[:_TOP].tolist()
    return classification_of(CLASSES).scored(Prediction(probabilities=p.tolist(), top=best), Truth(label))
