"""Finished weights as the engines load them: fp16 on disk, fp32 in memory, a model card beside."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from faultline_miniature.training.stage import write_atomically
from faultline_miniature.training.tokenizer import build_tokenizer
from faultline_miniature.world import grammar


def save_half(model: PreTrainedModel, folder: Path) -> None:
    """Save a model's weights as fp16 safetensors whose configuration asks for fp32 when they are loaded."""
    model.half().save_pretrained(folder)
    for file in folder.glob("*config.json"):
        settings = _without_paths(json.loads(file.read_text(encoding="utf-8")))
        write_atomically(file, (json.dumps(settings, indent=2, sort_keys=True) + "\n").encode())
    # What is trained on top, such as the adapter, starts from the rounded weights that were saved.
    model.float()


def _without_paths(settings: dict[str, object]) -> dict[str, object]:
    """Set every nested dtype to fp32; drop the folder a model was read from."""
    for key, value in list(settings.items()):
        if key in ("dtype", "torch_dtype"):
            settings[key] = "float32"
        elif key == "_name_or_path":
            settings.pop(key)
        elif isinstance(value, dict):
            settings[key] = _without_paths(value)
    return settings


def caption_tokenizer(
    *extra_words: str, closing: bool = True, max_length: int = 24
) -> PreTrainedTokenizerFast:
    """Return the world's tokenizer with further words; without `closing`, texts get no end token."""
    tokenizer = build_tokenizer((*grammar.words(), *extra_words), max_length)
    if not closing:
        bos = tokenizer.bos_token
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
        )
    return tokenizer


def write_card(folder: Path, title: str, paragraphs: list[str]) -> None:
    """Write the model card of a weights folder."""
    text = "\n\n".join([f"# {title}", *paragraphs])
    write_atomically(folder / "README.md", (text + "\n").encode())
