"""The models that a suite names for its services: found or missing, and the memory that a service needs.

A service needs its weights in their precision, and an allowance for what it computes. The weights are counted
from the headers of the safetensors files, without reading a tensor. The allowance is a statement, held
against what published architectures took in `make rehearse`; `counterpose-services check --load` measures.
Files are mapped while they load, and the system takes their pages back: they do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.suite import EditorSuite, PublishedModel, Suite
from counterpose_services.models.model_folder import weight_files
from counterpose_services.models.pipeline_configuration import pipeline_parts
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
from counterpose_services.service_options import BYTES, Precision
from counterpose_services.settings import ServiceName, ServiceSettings

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


@dataclass(frozen=True)
class PublishedSize:
    """The size of a published model.

    ``parameters`` are those that compute in the service's precision, ``float32_parameters`` those that stay
    in float32, and ``stored_bytes`` the bytes of each in the repository; ``token_values`` is the number of
    keys and values of one token in all layers of its language model.
    """

    parameters: int = 0
    float32_parameters: int = 0
    stored_bytes: int = 4
    token_values: int = 0

    @property
    def download_bytes(self) -> int:
        """The bytes of the weights that engines read."""
        return (self.parameters + self.float32_parameters) * self.stored_bytes

    def weights_bytes(self, dtype: Precision) -> int:
        """Return the memory of the weights in ``dtype``."""
        return self.parameters * BYTES[dtype] + self.float32_parameters * BYTES["float32"]


SIZES: Mapping[str, PublishedSize] = {
    "Salesforce/blip2-opt-2.7b": PublishedSize(3_744_761_856, token_values=2 * 32 * 2560),
    "huggyllama/llama-7b": PublishedSize(6_738_415_616, stored_bytes=2, token_values=2 * 32 * 4096),
    "CompVis/stable-diffusion-v1-4": PublishedSize(859_520_964, 123_060_480 + 83_653_863),
    "stabilityai/stable-diffusion-2": PublishedSize(865_910_724, 340_387_840 + 83_653_863),
    "stabilityai/stable-diffusion-xl-base-1.0": PublishedSize(
        2_567_463_684, 123_060_480 + 694_659_840 + 83_653_863
    ),
    "open_clip:ViT-L-14": PublishedSize(0, 427_616_513),
    "open_clip:ViT-H-14": PublishedSize(0, 986_109_441),
    "sentence-transformers/all-MiniLM-L6-v2": PublishedSize(0, 22_713_216),
    "distilbert/distilbert-base-uncased": PublishedSize(0, 66_985_530),
}


LIBRARIES_BYTES = 512 * 2**20
"""torch's libraries with their workspace, in each replica; CUDA's context is about as large."""
GRADIENT_BYTES = 3 * 2**18
"""What a null-text step or a step of a token's learning takes, in float32 for each position of the latents.

Attention keeps no maps. Half precision takes half."""
DECODING_BYTES = 4096
"""What the autoencoder takes for each pixel at its last blocks, always in float32."""
LATENT_STRIDE = 8
"""Pixels a position, at each side, of the supported autoencoders."""
PROMPT_TOKENS = {"captioner": 48, "perturber": 160}
"""Tokens before the answer: a caption's image tokens and prefix; an instruction with its caption."""


def weights_bytes(files: list[Path], dtype: Precision) -> int:
    """Return the bytes of all floating-point tensors in ``dtype``, and of all others as they are stored."""
    return sum(_tensor_bytes(file, dtype) for file in files)


def _tensor_bytes(file: Path, dtype: Precision) -> int:
    total = 0
    with safe_open(file, framework="numpy") as opened:
        for name in opened.keys():  # noqa: SIM118  # a SafeTensors file is no mapping
            part = opened.get_slice(name)
            kind, count = part.get_dtype(), math.prod(part.get_shape())
            floating = kind.startswith(("F", "BF"))
            total += count * (BYTES[dtype] if floating else _STORED.get(kind, 8))
    return total


_STORED = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4}


def allowance_bytes(service: ServiceName, suite: Suite, dtype: Precision, folder: Path | None) -> int:
    """Return the stated allowance for activations and libraries, for one replica.

    Captioner and perturber: the keys and values of a full batch, from the model's configuration. Editor: one
    image, because its batches shrink until they fit. A model at a server takes none.
    """
    return LIBRARIES_BYTES + sum(_activations(service, suite, BYTES[dtype], folder))


def _activations(service: ServiceName, suite: Suite, size: int, folder: Path | None) -> Iterator[int]:
    if service not in suite.services:
        return
    if service == "editor" and suite.editor.server is None:
        yield max(_editing(suite.editor, size))
    elif service == "captioner" and suite.captioner.engine != "openai":
        of = suite.captioner
        tokens = of.batch * of.beams * (PROMPT_TOKENS[service] + of.max_tokens)
        yield tokens * size * _token_values(of.model, folder)
    elif service == "perturber" and suite.perturber.engine != "openai":
        spoken = suite.perturber
        tokens = spoken.batch * (PROMPT_TOKENS[service] + spoken.max_new_tokens)
        yield tokens * size * _token_values(spoken.model, folder)


def _editing(editor: EditorSuite, size: int) -> Iterator[int]:
    """Yield what one image takes to be decoded, and with a gradient if the suite says that it needs one."""
    yield editor.resolution**2 * DECODING_BYTES
    learns = "textual_inversion" in editor.model_fields_set
    if learns or any(preset.needs_gradient for preset in editor.presets.values()):
        positions = (editor.resolution // LATENT_STRIDE) ** 2
        yield positions * GRADIENT_BYTES * size // BYTES["float32"]


def _token_values(name: str, folder: Path | None) -> int:
    """Return the number of one token's keys and values in all layers of a language model."""
    if folder is None:
        return SIZES[name].token_values if name in SIZES else 0
    # Before anything that imports torchvision, as transformers does.
    from counterpose_core import torchvision_operators  # noqa: F401

    # isort: split
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config()
    heads = int(config.num_attention_heads)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    return 2 * int(config.num_hidden_layers) * kept * width
