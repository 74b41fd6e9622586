"""The folders of a suite's weights, and the check that all exist, which runs before anything is started.

Engines find their folders by the same functions, so they load what is found here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.suite import PerturberSuite, PublishedModel, Suite, load_suite
from counterpose_services.models.model_folder import (
    how_to_get,
    model_folder,
    read_variant,
    require_readable,
    require_safetensors,
)
from counterpose_services.models.pipeline_configuration import missing_file, pipeline_parts, require_editable
from counterpose_services.settings import (
    SUITE_DISTRIBUTION,
    ServiceName,
    ServiceSettings,
    embedded_suite_root,
)

CLIP_CONFIGURATION = "open_clip_config.json"
CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
PUBLISHED_PREFIX = "open_clip:"
PUBLISHED_FOLDER = "open_clip"
Published = Mapping[str, PublishedModel]
"""Where a suite's models are published, by their names in it."""
NOWHERE: Published = {}
_WEIGHT_FILES = ("*.safetensors", "*.bin")
_CONFIGURATIONS = ("config.json", "adapter_config.json")


def weights_folder(root: Path, name: str, published: Published = NOWHERE) -> Path:
    """Find a folder of safetensors weights.

    Args:
        root: the folder of all models.
        name: the model's name.
        published: where the suite's models are published.

    Raises:
        UnknownModel: there is no such folder, or it has no weights at all.
        ModelFormatRefused: its weights are not safetensors.
    """
    folder = model_folder(root, name, published.get(name))
    _require_parts(folder, [""], name, published)
    return folder


def pipeline_folder(root: Path, name: str, published: Published = NOWHERE) -> Path:
    """Find the folder of a Stable-Diffusion-class pipeline.

    Raises:
        UnknownModel: there is no such folder, or it has no weights at all.
        ModelFormatRefused: its weights are not safetensors, the editor does not support its networks, or
            its scheduler or a tokenizer is missing.
    """
    folder = model_folder(root, name, published.get(name))
    require_editable(folder, name)
    _require_parts(folder, pipeline_parts(folder), name, published)
    if missing := missing_file(folder):
        if name in published:
            raise _incomplete(name, missing, published)
        raise ModelFormatRefused(f"the pipeline {name!r} has no {missing}; add it")
    return folder


def _require_parts(folder: Path, parts: Sequence[str], name: str, published: Published) -> None:
    for part in parts:
        if name in published and (missing := _missing(folder / part, published[name].variant)):
            # A download that was cut off, or made with other patterns.
            raise _incomplete(name, f"{part}/{missing}".lstrip("/"), published)
        require_safetensors(folder / part)


def _missing(folder: Path, variant: str | None) -> str | None:
    """The first file that a folder of a downloaded model lacks; a folder of pickles lacks none."""
    if not any(any(folder.glob(kind)) for kind in _WEIGHT_FILES):
        return _WEIGHT_FILES[0] if variant is None else f"*.{variant}.safetensors"
    read = read_variant(folder)
    # `model.safetensors.index.json`, of a variant `model.safetensors.index.fp16.json`.
    for index in folder.glob(f"*.safetensors.index.{'json' if read is None else f'{read}.json'}"):
        shards = set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
        if absent := sorted(shard for shard in shards if not (folder / shard).is_file()):
            return str(absent[0])
    return None if any(any(folder.glob(kind)) for kind in _CONFIGURATIONS) else _CONFIGURATIONS[0]


def _incomplete(name: str, missing: str, published: Published) -> UnknownModel:
    return UnknownModel(f"{name!r} has no {missing}; {how_to_get(name, published.get(name))}")


def clip_folder(root: Path, name: str, published: Published = NOWHERE) -> Path:
    """Find the folder of a suite's CLIP; ``open_clip:<architecture>`` lies under ``open_clip/``.

    Raises:
        UnknownModel: there is no such folder, or it has no open_clip configuration.
        ModelFormatRefused: its weights are not safetensors.
    """
    # Suites spell it as in open_clip's list of models; a folder's name cannot contain a colon.
    below = name
    if name.startswith(PUBLISHED_PREFIX):
        below = f"{PUBLISHED_FOLDER}/{name.removeprefix(PUBLISHED_PREFIX)}"
    folder = model_folder(root, below, published.get(name))
    if not (folder / CLIP_CONFIGURATION).is_file():
        if name in published:
            raise _incomplete(name, CLIP_CONFIGURATION, published)
        raise UnknownModel(f"the CLIP folder {below!r} has no {CLIP_CONFIGURATION}; add it")
    files = [folder / file for file in CLIP_WEIGHTS if (folder / file).is_file()]
    if not files:
        if name in published:
            raise _incomplete(name, CLIP_WEIGHTS[0], published)
        raise ModelFormatRefused(f"the CLIP folder {below!r} has none of {', '.join(CLIP_WEIGHTS)}; add one")
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
    suite, root = load_suite(settings.suite, settings), settings.suite_root
    for service in services:
        if service not in suite.services:
            # Raises the error of a suite without it.
            getattr(suite, service)
    for service in services:
        for name, (find, published) in needed_models(suite).get(service, {}).items():
            try:
                find(root, name, published)
            except (UnknownModel, ModelFormatRefused) as error:
                if not root.is_dir():
                    raise UnknownModel(_no_root(root, service)) from error
                raise type(error)(f"the {service} needs {name!r} in {str(root)!r}: {error.detail}") from error


def _no_root(root: Path, service: ServiceName) -> str:
    """Return the message for a missing folder of all weights."""
    missing = f"the {service} finds no weights: there is no folder {str(root)!r}"
    if root == embedded_suite_root():
        return (
            f"{missing}; install the wheel of {SUITE_DISTRIBUTION} (`make dist` in a clone writes it into "
            "dist/), or set COUNTERPOSE_SUITE_ROOT"
        )
    return f"{missing}; set COUNTERPOSE_SUITE_ROOT to the folder of the suite's weights"


def vocabulary_folder(root: Path, name: str, published: Published = NOWHERE) -> Path:
    """Find a folder of which the tokenizer alone is read; raises UnknownModel if there is none."""
    return model_folder(root, name, published.get(name))


def _spoken(suite: PerturberSuite) -> dict[str, tuple[Find, Published]]:
    """Return the folders of a perturber: where another's server has the model, its vocabulary at most."""
    if suite.engine == "openai":
        return dict.fromkeys(_named(suite.tokenizer), (vocabulary_folder, suite.published))
    return dict.fromkeys(_named(suite.model, suite.adapter), (weights_folder, suite.published))


def _named(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


Find = Callable[[Path, str, Published], Path]


def needed_models(suite: Suite) -> Mapping[ServiceName, dict[str, tuple[Find, Published]]]:
    """Return the models of each service with the function that finds each, and where they are published."""
    needed: dict[ServiceName, dict[str, tuple[Find, Published]]] = {}
    if (captioner := suite.captioner_part) is not None:
        # A server of another's has the model.
        own = [] if captioner.engine == "openai" else [captioner.model]
        needed["captioner"] = dict.fromkeys(own, (weights_folder, captioner.published))
    if suite.perturber_part is not None:
        needed["perturber"] = _spoken(suite.perturber_part)
    if (editor := suite.editor_part) is not None:
        loaded = any(preset.loads_weights for preset in editor.presets.values())
        needed["editor"] = {
            **dict.fromkeys([editor.model] if loaded else [], (pipeline_folder, editor.published)),
            **dict.fromkeys(_named(editor.preview_decoder), (weights_folder, editor.published)),
        }
    if (scorer := suite.scorer_part) is not None:
        finders = (
            (scorer.clip, clip_folder),
            (scorer.sentence, weights_folder),
            (scorer.masked_lm, weights_folder),
        )
        needed["scorer"] = {name: (find, scorer.published) for name, find in finders if name}
    for beside in (suite.segmenter, suite.encoder):
        if beside is not None:
            needed.setdefault("scorer", {})[beside.model] = (weights_folder, beside.published)
    return needed
