"""Training images, rendered once by worker processes and kept in files."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from counterpose_miniature.training.stage import save_array
from counterpose_miniature.world.grammar import caption
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.sampling import GENERATOR
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import TRAINING, SeedRange, scene_for
from counterpose_miniature.world.wording import SYNONYMS, TEMPLATES

# 33 MB per shard, so that a kill costs only seconds of rendering.
_SHARD = 2_000
_WORDING_STREAM = 0x3083D


def generator_scenes(indices: Iterable[int], split: SeedRange = TRAINING) -> list[Scene]:
    """Return scenes of the generator's distribution, which has no withheld combinations."""
    return [scene_for(split, index, GENERATOR) for index in indices]


def caption_variants(scene: Scene) -> list[str]:
    """Return the scene's caption in every template, then the same reworded with synonyms."""
    plain = [caption(scene, template) for template in range(len(TEMPLATES))]
    draws = np.random.default_rng([scene.nuisance, _WORDING_STREAM])
    return plain + [_reworded(text, draws) for text in plain]


def _reworded(text: str, draws: np.random.Generator) -> str:
    for old, news in SYNONYMS.items():
        if draws.random() < 0.5:
            text = f"{text} ".replace(f"{old} ", f"{news[int(draws.integers(len(news)))]} ").rstrip()
    return text


class ImageSet:
    """The first `count` images of a split: uint8 [N, 64, 64, 3], object masks uint8 [N, 64, 64]."""

    def __init__(self, folder: Path, count: int, split: SeedRange = TRAINING) -> None:
        self._folder, self._split, self.count = folder, split, count
        folder.mkdir(parents=True, exist_ok=True)

    def ensure(self, workers: int) -> None:
        """Render the missing shards; a killed call loses at most the shards in progress."""
        missing = [start for start in range(0, self.count, _SHARD) if not self._path(start).exists()]
        jobs = [(self._path(start), self._split, start, self._stop(start)) for start in missing]
        if workers == 1 or len(jobs) <= 1:
            for job in tqdm(jobs, desc="render"):
                _render_shard(job)
            return
        # Spawned, because a fork copies the locks of torch's threads but not the threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for _ in tqdm(pool.map(_render_shard, jobs), total=len(jobs), desc="render"):
                pass

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (images, masks) in memory."""
        starts = range(0, self.count, _SHARD)
        shards = [np.load(self._path(start)) for start in starts]
        together = np.concatenate(shards)
        return together[..., :3], together[..., 3]

    def _stop(self, start: int) -> int:
        return min(start + _SHARD, self.count)

    def _path(self, start: int) -> Path:
        return self._folder / f"{self._split.name}-{start}-{self._stop(start)}.npy"


def _render_shard(job: tuple[Path, SeedRange, int, int]) -> None:
    path, split, start, stop = job
    shard = np.empty((stop - start, 64, 64, 4), np.uint8)
    for row, scene in enumerate(generator_scenes(range(start, stop), split)):
        shard[row, ..., :3] = render(scene)
        shard[row, ..., 3] = np.rint(255 * object_mask(scene))
    save_array(path, shard)
