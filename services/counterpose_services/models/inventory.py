"""The models that a suite names for its services: found or missing, and the bytes of their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.suite import PublishedModel, Suite
from counterpose_services.models.memory import weights_bytes
from counterpose_services.models.pipeline_configuration import pipeline_parts
from counterpose_services.models.published_sizes import SIZES
from counterpose_services.models.variants import weight_files
from counterpose_services.models.weights import (
    CLIP_WEIGHTS,
    Find,
    Published,
    clip_folder,
    needed_models,
    pipeline_folder,
    vocabulary_folder,
    weights_folder,
)
from counterpose_services.service_options import Precision, ServiceName
from counterpose_services.settings import ServiceSettings

SNAPSHOTS = "snapshots"
"""The hub's cache keeps each revision of a model in a folder of its own below this one."""


@dataclass(frozen=True)
class FoundModel:
    """One model of a service; ``problem`` is one sentence if it cannot be used, else None.

    ``weights_bytes`` of a missing model are those of the published one, or None if they are not known.
    """

    name: str
    folder: Path | None
    revision: str | None
    weights_bytes: int | None
    source: PublishedModel | None
    download_bytes: int | None = None
    problem: str | None = None


def models_of(service: ServiceName, suite: Suite, settings: ServiceSettings) -> list[FoundModel]:
    """Look for each model that ``suite`` names for ``service``; nothing is loaded or downloaded."""
    own = _classifiers(suite) if service == "classifiers" else {}
    wanted = needed_models(suite).get(service, own)
    return [_look(service, name, find, said, settings) for name, (find, said) in wanted.items()]


def _classifiers(suite: Suite) -> dict[str, tuple[Find, Published]]:
    of = suite.classifiers
    found: dict[str, tuple[Find, Published]] = dict.fromkeys(
        of.models.values(), (weights_folder, of.published)
    )
    return found | dict.fromkeys(of.zero_shot.values(), (clip_folder, of.published))


def _look(
    service: ServiceName, name: str, find: Find, said: Published, settings: ServiceSettings
) -> FoundModel:
    source, root, dtype = said.get(name), settings.suite_root, settings.of(service).dtype
    revision = None if source is None else source.revision
    try:
        folder = find(root, name, said)
    except (UnknownModel, ModelFormatRefused) as error:
        problem = f"the {service} needs {name!r} in {str(root)!r}: {error.detail}"
        if (known := SIZES.get(name)) is None:
            return FoundModel(name, None, revision, None, source, problem=problem)
        size = known.weights_bytes(dtype)
        download = known.download_bytes
        problem = f"{problem}: {download / 1e9:.3g} GB"
        return FoundModel(name, None, revision, size, source, download, problem)
    total = sum(weights_bytes(files, precision) for files, precision in _parts(service, folder, find, dtype))
    # The hub's cache names a revision's folder by its commit.
    revision = folder.name if folder.parent.name == SNAPSHOTS else None
    return FoundModel(name, folder, revision, total, source)


def _parts(
    service: ServiceName, folder: Path, find: Find, dtype: Precision
) -> Iterator[tuple[list[Path], Precision]]:
    """Yield the files that an engine reads, with the precision in which it keeps them.

    An editor's autoencoders and text encoders stay in float32, whatever its UNet computes in.
    """
    if find is pipeline_folder:
        for part in pipeline_parts(folder):
            yield weight_files(folder / part), dtype if part == "unet" else "float32"
    elif find is clip_folder:
        yield [folder / file for file in CLIP_WEIGHTS if (folder / file).is_file()][:1], "float32"
    elif find is not vocabulary_folder:
        yield weight_files(folder), "float32" if service == "editor" else dtype
