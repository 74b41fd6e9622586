"""The folders of a suite's weights, and the check that all exist, which runs before anything is started.

Engines find their folders by the same functions, so they load what is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from faultline_core.errors import ModelFormatRefused, UnknownModel
from faultline_core.suite import Suite, load_suite
from faultline_services.models.model_folder import model_folder, require_readable, require_safetensors
from faultline_services.settings import (
    SUITE_DISTRIBUTION,
    ServiceName,
    ServiceSettings,
    embedded_suite_root,
)

PIPELINE_PARTS = ("vae", "unet", "text_encoder")
CLIP_CONFIGURATION = "open_clip_config.json"
CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
PUBLISHED_PREFIX = "open_clip:"
PUBLISHED_FOLDER = "open_clip"


def weights_folder(root: Path, name: str) -> Path:
    """Find a folder of safetensors weights.

    Raises:
        UnknownModel: there is no such folder.
        ModelFormatRefused: its weights are not safetensors.
    """
    folder = model_folder(root, name)
    require_safetensors(folder)
    return folder


def pipeline_folder(root: Path, name: str) -> Path:
    """Find the folder of a Stable-Diffusion-class pipeline; raises as ``weights_folder`` does."""
    folder = model_folder(root, name)
    for part in PIPELINE_PARTS:
        require_safetensors(folder / part)
    return folder


def clip_folder(root: Path, name: str) -> Path:
    """Find the folder of a suite's CLIP; ``open_clip:<architecture>`` lies under ``open_clip/``.

    Raises:
        UnknownModel: there is no such folder, or it has no open_clip configuration.
        ModelFormatRefused: its weights are not safetensors.
    """
    # Suites spell it as in open_clip's list of models; a folder's name cannot contain a colon.
    if name.startswith(PUBLISHED_PREFIX):
        name = f"{PUBLISHED_FOLDER}/{name.removeprefix(PUBLISHED_PREFIX)}"
    folder = model_folder(root, name)
    if not (folder / CLIP_CONFIGURATION).is_file():
        raise UnknownModel(f"the CLIP folder {name!r} has no {CLIP_CONFIGURATION}; add it")
    files = [folder / file for file in CLIP_WEIGHTS if (folder / file).is_file()]
    if not files:
        raise ModelFormatRefused(f"the CLIP folder {name!r} has none of {', '.join(CLIP_WEIGHTS)}; add one")
    for file in files:
        require_readable(file)
    return folder


def require_weights(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    """Raise an error if a service would fail on its weights.

    Serve would report it after starting the replica three times, each time importing torch: 70 s on two
    cores. Classifiers are not checked: they load on first use and list only what exists.

    Raises:
        UnknownModel: a folder is missing, or the suite has no such service.
        ModelFormatRefused: weights are not safetensors.
    """
    suite, root = load_suite(settings.suite), settings.suite_root
    if "perturber" in services and suite.perturber is None:
        raise UnknownModel(f"the suite {suite.name!r} has no perturber; choose a suite with one")
    for service in services:
        for name, find in _needed(suite).get(service, {}).items():
            try:
                find(root, name)
            except (UnknownModel, ModelFormatRefused) as error:
                if not root.is_dir():
                    raise UnknownModel(_no_root(root, service)) from error
                raise type(error)(f"the {service} needs {name!r} in {str(root)!r}: {error.detail}") from error


def _no_root(root: Path, service: ServiceName) -> str:
    """Return the message for a missing folder of all weights."""
    missing = f"the {service} finds no weights: there is no folder {str(root)!r}"
    if root == embedded_suite_root():
        return f"{missing}; run pip install {SUITE_DISTRIBUTION}, or set FAULTLINE_SUITE_ROOT"
    return f"{missing}; set FAULTLINE_SUITE_ROOT to the folder of the suite's weights"


_Find = Callable[[Path, str], Path]


def _needed(suite: Suite) -> Mapping[ServiceName, dict[str, _Find]]:
    """Return the models of each service with the function that finds each."""
    scorer, perturber = suite.scorer, suite.perturber
    spoken = [] if perturber is None else [perturber.model, perturber.adapter]
    preview = suite.editor.preview_decoder
    return {
        "captioner": {suite.captioner.model: weights_folder},
        "perturber": {name: weights_folder for name in spoken if name is not None},
        "editor": {
            suite.editor.model: pipeline_folder,
            **({} if preview is None else {preview: weights_folder}),
        },
        "scorer": {
            scorer.clip: clip_folder,
            scorer.sentence: weights_folder,
            scorer.masked_lm: weights_folder,
        },
    }
