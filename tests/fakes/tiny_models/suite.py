"""A whole suite of tiny random models, with the file that names them."""

from __future__ import annotations

from pathlib import Path

from fakes.tiny_models.bert import save_masked_lm, save_sentence_encoder
from fakes.tiny_models.blip2 import save_blip2
from fakes.tiny_models.clip import save_clip
from fakes.tiny_models.llama import save_llama
from fakes.tiny_models.timm import save_timm
from fakes.tiny_pipeline import RESOLUTION, write_tiny_pipeline

CLASSES = ("boat", "tram", "sled")
_SUITE = f"""
name = "tiny"
description = "Random weights, real formats"

[captioner]
model = "captioner"
beams = 2
min_tokens = 2
max_tokens = 5

[perturber]
model = "perturber"
adapter = "perturber/adapter"
max_new_tokens = 8
prompt = "compact"

[editor]
model = "editor"
resolution = {RESOLUTION}
batch = 4
default_preset = "quick"

[editor.presets.quick]
steps = 2
guidance = 2.0
self_replace = [0.5]

[scorer]
clip = "clip"
sentence = "sentence"
masked_lm = "masked-lm"

[classifiers.models]
resnet = "resnet"

[classifiers.zero_shot]
zero-shot = "clip"
"""


def write_tiny_suite(root: Path) -> Path:
    """Save every model under ``root`` and return the suite's file."""
    save_blip2(root / "captioner")
    save_llama(root / "perturber")
    write_tiny_pipeline(root / "editor")
    save_clip(root / "clip")
    save_sentence_encoder(root / "sentence")
    save_masked_lm(root / "masked-lm")
    save_timm(root / "resnet", CLASSES)
    file = root / "tiny.toml"
    file.write_text(_SUITE, encoding="utf-8")
    return file
