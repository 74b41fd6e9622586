"""Descriptions of classifiers that are not loaded, from their folders or their servers."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.contract.preparations import NORMALISED
from counterpose_core.errors import CounterposeError, ModelFormatRefused
from counterpose_services.classifiers.class_map import read_class_map
from counterpose_services.classifiers.onnx_file import ONNX_FILE
from counterpose_services.classifiers.open_inference import OpenInference
from counterpose_services.classifiers.preparations import alternatives
from counterpose_services.classifiers.stored_traits import (
    LONGEST_TAG,
    FileTraits,
    clip_resolution,
    described_resolution,
    described_training,
    onnx_traits,
    short_text,
    stored_parameters,
)
from counterpose_services.classifiers.timm_folder import CLASS_MAP, WEIGHTS, read_configuration
from counterpose_services.models.weights import CLIP_CONFIGURATION, CLIP_WEIGHTS

_ONNX, _OPEN_CLIP = "onnx", "open_clip"


def describe_folder(folder: Path, name: str, spec: str) -> ClassifierDescription | None:
    """Describe a timm or an ONNX network by its files; None if the folder holds neither.

    Without an ``architecture`` in its configuration, an ONNX network's architecture is its format.
    """
    try:
        config, head = read_configuration(folder), read_class_map(folder / CLASS_MAP)
    except CounterposeError:
        # The list has only usable classifiers; a request for a broken one says what is wrong with it.
        return None
    is_onnx = (folder / ONNX_FILE).is_file()
    stored = onnx_traits(folder / ONNX_FILE) if is_onnx else FileTraits(stored_parameters(folder / WEIGHTS))
    return ClassifierDescription(
        name=name,
        spec=spec,
        architecture=short_text(config, "architecture") or (_ONNX if is_onnx else ""),
        parameters=stored.parameters,
        resolution=described_resolution(config) or stored.resolution,
        training=described_training(config),
        classes=head.own_names,
    )


def alternative_preparations(folder: Path) -> dict[str, str]:
    """The preparations beside that of a folder's ``config.json``, by name, in words.

    Raises:
        ModelFormatRefused: the file is not readable.
    """
    found = read_configuration(folder).get("pretrained_cfg")
    cfg = found if isinstance(found, dict) else {}
    # timm's own default where a folder gives none.
    mean, deviation = NORMALISED["imagenet"]
    return alternatives(cfg.get("mean", mean), cfg.get("std", deviation))


def describe_clip(folder: Path, spec: str) -> ClassifierDescription:
    """Describe a folder of open_clip as the zero-shot classifier ``spec``."""
    try:
        config = read_configuration(folder, CLIP_CONFIGURATION)
    except ModelFormatRefused:
        config = {}
    return ClassifierDescription(
        name=spec,
        spec=spec,
        architecture=_OPEN_CLIP,
        parameters=stored_parameters(*(folder / file for file in CLIP_WEIGHTS)),
        resolution=clip_resolution(config),
        description="zero-shot",
    )


def describe_remote(spec: str, remote: OpenInference) -> ClassifierDescription:
    """Describe a remote model by its metadata.

    The protocol gives the image size and the format of the model. Architecture, number of parameters and
    training are read from the metadata's ``parameters``, if our names are present.
    """
    metadata = remote.metadata
    given = metadata.parameters
    count = given.get("parameters")
    return ClassifierDescription(
        name=spec,
        spec=spec,
        architecture=short_text(given, "architecture"),
        description=metadata.platform[:LONGEST_TAG],
        parameters=count if type(count) is int and count > 0 else None,
        resolution=remote.resolution,
        training=short_text(given, "training"),
        classes=metadata.labels,
        preparations=_preparations(given.get("preparations")),
    )


def _preparations(given: object) -> dict[str, str]:
    tags = given if isinstance(given, dict) else {}
    return {
        name: words for name, words in tags.items() if isinstance(words, str) and len(words) <= LONGEST_TAG
    }
