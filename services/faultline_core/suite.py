"""A model suite: the model, preset and limits of every service, as data.

The engines load every suite from the same file formats; nothing branches on a suite's name.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from faultline_core.contract.dataset_interfaces import LearningPrompts
from faultline_core.contract.editor import EditorPreset, GenerationPreset
from faultline_core.contract.stress_tests import GateThresholds, TextThresholds
from faultline_core.contract.tokens import TextualInversionPreset
from faultline_core.errors import UnknownModel
from faultline_core.types import Cosine


class _SuitePart(BaseModel):
    # A mistyped limit must not quietly mean its default.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CaptionerSuite(_SuitePart):
    """BLIP-2 weights and decoding limits; ``labelled_prefix`` may hold ``{label}``.

    A caption is shortened to ``text_limit`` tokens of the captioner's own tokenizer: below what the
    editor's text encoder reads (77 less its two marks), because the two tokenizers cut words differently.
    """

    model: str
    beams: int = Field(default=5, ge=1)
    min_tokens: int = Field(default=20, ge=0)
    max_tokens: int = Field(default=100, ge=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    prefix: str = ""
    labelled_prefix: str = ""
    text_limit: int = Field(default=70, ge=1)
    batch: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> CaptionerSuite:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens {self.min_tokens!r} is larger than max_tokens {self.max_tokens!r}; lower it"
            )
        return self


class PerturberSuite(_SuitePart):
    """LLaMA weights, the LoRA adapter on them, sampling."""

    engine: Literal["transformers", "vllm"] = "transformers"
    model: str
    adapter: str | None = None
    temperature: float = Field(default=1.0, gt=0)
    top_k: int = Field(default=0, ge=0)
    max_new_tokens: int = Field(default=400, ge=1)
    prompt: Literal["instruction", "compact"] = "instruction"
    batch: int = Field(default=32, ge=1)


class EditorSuite(_SuitePart):
    """Stable-Diffusion-class weights and the presets offered on them.

    A run that names no preset takes ``default_preset``.
    ``preview_decoder`` is a small autoencoder of the same latents (an ``AutoencoderTiny``, such as TAESD),
    by whose images presets with ``preview`` choose. ``textual_inversion`` is how class tokens are learned,
    ``token_prompts`` what their images are shown under, ``token_link_steps`` how far one call takes them
    (some seconds), ``generation`` how images are made of them.
    """

    model: str
    preview_decoder: str | None = None
    # Autoencoders halve a side three times; no model that we load was trained beyond 1024.
    resolution: int = Field(ge=8, le=2048, multiple_of=8)
    batch: int = Field(default=8, ge=1)
    default_preset: str
    presets: dict[str, EditorPreset]
    textual_inversion: TextualInversionPreset = TextualInversionPreset()
    token_prompts: LearningPrompts = "templates"
    token_link_steps: int = Field(default=50, ge=1, le=20_000)
    generation: GenerationPreset = GenerationPreset()

    @model_validator(mode="after")
    def _default_is_offered(self) -> EditorSuite:
        if self.default_preset not in self.presets:
            raise ValueError(
                f"default_preset {self.default_preset!r} is not among the presets {sorted(self.presets)}"
            )
        return self

    @model_validator(mode="after")
    def _previews_have_a_decoder(self) -> EditorSuite:
        unseen = [name for name, preset in self.presets.items() if preset.preview]
        if unseen and self.preview_decoder is None:
            raise ValueError(
                f"preset {unseen[0]!r} asks for previews, but the suite has no preview_decoder; add one"
            )
        return self


class ScorerSuite(_SuitePart):
    """CLIP, sentence encoder and masked LM, with the thresholds calibrated for these checkpoints.

    ``objectionable`` is the cosine with an objectionable concept from which a generated image is
    refused; without it nobody looks. ``checkpoint`` names the published weights that ``clip`` is, for
    thresholds that were published with them; ``shift_thresholds`` are a suite's own, by the shift's name.
    """

    clip: str
    checkpoint: str | None = None
    sentence: str
    masked_lm: str
    gate: GateThresholds = GateThresholds()
    text: TextThresholds = TextThresholds()
    objectionable: Cosine | None = None
    shift_thresholds: dict[str, Cosine] = {}
    batch: int = Field(default=32, ge=1)


class ClassifiersSuite(_SuitePart):
    """Names of the suite's own classifiers, each a folder with safetensors and a class map."""

    models: dict[str, str] = {}
    zero_shot: dict[str, str] = {}
    allow_timm: bool = True
    batch: int = Field(default=32, ge=1)


class Suite(_SuitePart):
    """All five services at once; ``datasets`` names folders the suite brings along."""

    name: str
    description: str
    captioner: CaptionerSuite
    perturber: PerturberSuite | None = None
    editor: EditorSuite
    scorer: ScorerSuite
    classifiers: ClassifiersSuite


def suite_names() -> list[str]:
    """Names of the suites that ship with Faultline."""
    folder = resources.files("faultline_core") / "suites"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_suite(name_or_file: str) -> Suite:
    """Read a suite by its name, or from a TOML file of the user's.

    Raises:
        UnknownModel: no suite has this name.
    """
    path = Path(name_or_file)
    # By its suffix, not by whether it exists: a mistyped file name must not fall back to a suite's.
    if path.suffix == ".toml":
        return Suite.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    if name_or_file not in suite_names():
        raise UnknownModel(
            f"no suite is named {name_or_file!r}; choose one of {', '.join(suite_names())}, or a .toml file"
        )
    text = (resources.files("faultline_core") / "suites" / f"{name_or_file}.toml").read_text(encoding="utf-8")
    return Suite.model_validate(tomllib.loads(text))
