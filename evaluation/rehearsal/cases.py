"""What is rehearsed: a service, the published models that it loads, and the suite that names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.suite import ClassifiersSuite, Suite, load_suite
from counterpose_core.types import Inversion, ServiceName
from counterpose_services.service_options import Precision
from evaluation.rehearsal import repositories
from evaluation.rehearsal.architectures import Size
from evaluation.rehearsal.repositories import Repository

PRESET = "rehearsal"
NEW_TOKENS = 8
"""Of a caption or an edited caption: published models write up to 400."""
Writers = Callable[[Size], Sequence[Repository]]


@dataclass(frozen=True)
class Case:
    """One service with the models of one suite; ``on_cpu`` is its precision there, ``inversion`` an editor's.

    float16 has no fast kernels on most CPUs. What does not fit in float32 is computed in bfloat16, which is
    several times slower on CPUs without units for it.
    """

    name: str
    service: ServiceName
    suite: str
    models: str
    writers: Writers
    on_cpu: Precision = "float32"
    inversion: Inversion = "null-text"

    def precision(self, device: str) -> Precision:
        """The precision that the service computes in."""
        if device == "cpu" or self.service in ("scorer", "classifiers"):
            return self.on_cpu
        return "float16"

    def tailored(self, steps: int, resolution: int | None = None) -> Suite:
        """Return the suite for one short request.

        Args:
            steps: diffusion steps.
            resolution: of the editor's images; default: the suite's.
        """
        suite = load_suite(self.suite)
        preset = PromptToPromptPreset(
            inversion=self.inversion, steps=steps, inner_steps=1, guidance=7.5, self_replace=(0.8,)
        )
        short: dict[str, Any] = {
            "captioner": {
                "min_tokens": NEW_TOKENS // 2, "max_tokens": NEW_TOKENS, "batch": 1,
                # Random captions are not words, and would be shortened to nothing.
                "text_limit": 10_000,
            },
            "editor": {"presets": {PRESET: preset}, "default_preset": PRESET, "batch": 1},
        }  # fmt: skip
        if resolution is not None:
            short["editor"]["resolution"] = resolution
        parts: dict[str, Any] = {
            f"{name}_part": getattr(suite, name).model_copy(update=fields) for name, fields in short.items()
        }
        if "perturber" in suite.services:
            spoken = {"adapter": None, "max_new_tokens": NEW_TOKENS, "batch": 1}
            parts["perturber_part"] = suite.perturber.model_copy(update=spoken)
        tested = ClassifiersSuite(
            models={"resnet50": "timm/resnet50"}, zero_shot={"ViT-L-14": "open_clip:ViT-L-14"}
        )
        return suite.model_copy(update=parts | {"classifiers": tested})


def _scorer(architecture: str) -> Writers:
    return lambda size: (
        repositories.open_clip_model(architecture, size),
        repositories.sentence_encoder(size),
        repositories.masked_language_model(size),
    )


CASES: tuple[Case, ...] = (
    Case(
        "classifiers", "classifiers", "lance", "timm ResNet-50, CLIP ViT-L/14",
        lambda size: (repositories.resnet50(size), repositories.open_clip_model("ViT-L-14", size)),
    ),
    Case("scorer-vit-l-14", "scorer", "lance", "CLIP ViT-L/14, MiniLM, DistilBERT", _scorer("ViT-L-14")),
    Case(
        "scorer-vit-h-14", "scorer", "dataset-interfaces", "CLIP ViT-H/14, MiniLM, DistilBERT",
        _scorer("ViT-H-14"),
    ),
    Case(
        "captioner", "captioner", "lance", "BLIP-2 OPT-2.7B", lambda size: (repositories.blip2(size),),
        "bfloat16",
    ),
    Case(
        "editor-sd14", "editor", "lance", "Stable Diffusion 1.4, 512 px",
        lambda size: (
            repositories.stable_diffusion("sd14", "sd14", "CompVis/stable-diffusion-v1-4", "epsilon", size),
        ),
    ),
    Case(
        "editor-sd2", "editor", "dataset-interfaces", "Stable Diffusion 2, 768 px",
        lambda size: (
            repositories.stable_diffusion(
                "sd2", "sd21", "stabilityai/stable-diffusion-2", "v_prediction", size
            ),
        ),
    ),
    Case(
        "perturber", "perturber", "lance", "LLaMA-7B", lambda size: (repositories.llama_7b(size),), "bfloat16"
    ),
    Case(
        "editor-sdxl", "editor", "sdxl", "Stable Diffusion XL, 1024 px",
        lambda size: (repositories.sdxl(size),), "bfloat16", "direct",
    ),
)  # fmt: skip


def chosen(only: str | None) -> list[Case]:
    """Return the cases that ``only`` names, by case or service, separated by commas; all without it.

    Raises:
        ValueError: a name is neither a case nor a service with one.
    """
    if only is None:
        return list(CASES)
    names = only.split(",")
    known = {case.name for case in CASES} | {case.service for case in CASES}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"there is no case {unknown[0]!r}; choose from {', '.join(sorted(known))}")
    return [case for case in CASES if case.name in names or case.service in names]


def suite_toml(suite: Suite) -> str:
    """Write a suite as the TOML file that the services read."""
    return (
        "\n".join(
            _toml(suite.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True), ())
        )
        + "\n"
    )


def _toml(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    if path:
        yield f"[{'.'.join(json.dumps(name) for name in path)}]"
    # JSON's strings, numbers and lists are TOML's.
    for name, value in section.items():
        if not isinstance(value, Mapping):
            yield f"{json.dumps(name)} = {json.dumps(value)}"
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _toml(value, (*path, name))
