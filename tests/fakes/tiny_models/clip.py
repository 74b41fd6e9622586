"""A tiny open_clip folder."""

from __future__ import annotations

import json
from pathlib import Path

from open_clip.model import CLIP, CustomTextCLIP
from safetensors.torch import save_file

from fakes.tiny_models.weights import randomised
from fakes.tiny_models.words import tiny_tokenizer

CONTEXT = 16
SIGLIP_BIAS = -10.0
WIDTH = 24


def save_clip(folder: Path, *, seed: int = 0) -> None:
    """Save a random CLIP in the layout that open_clip reads as ``local-dir:``."""
    tokenizer = tiny_tokenizer()
    model_cfg = {
        "embed_dim": WIDTH,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {
            "context_length": CONTEXT,
            "vocab_size": len(tokenizer),
            "hf_tokenizer_name": "tokenizer",
            "width": 32,
            "heads": 2,
            "layers": 1,
            "pool_type": "eos",
            "eos_id": tokenizer.eos_token_id,
        },
    }
    model = randomised(CLIP(**model_cfg), seed=seed)
    folder.mkdir(parents=True)
    config = {"model_cfg": model_cfg, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "size": 16}}
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "open_clip_model.safetensors")
    tokenizer.save_pretrained(folder)


def save_siglip(folder: Path, *, seed: int = 0) -> None:
    """Save a random SigLIP: no causal mask, the last position's output, a bias, padding by the end mark."""
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    model_cfg = {
        "embed_dim": WIDTH,
        "init_logit_bias": SIGLIP_BIAS,
        "custom_text": True,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {
            "context_length": CONTEXT,
            "vocab_size": len(tokenizer),
            "hf_tokenizer_name": "tokenizer",
            "tokenizer_kwargs": {"clean": "canonicalize"},
            "width": 32,
            "heads": 2,
            "layers": 1,
            "no_causal_mask": True,
            "proj_bias": True,
            "pool_type": "last",
        },
    }
    built = {name: value for name, value in model_cfg.items() if name != "custom_text"}
    model = randomised(CustomTextCLIP(**built), seed=seed)
    folder.mkdir(parents=True)
    config = {"model_cfg": model_cfg, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "size": 16}}
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "open_clip_model.safetensors")
    tokenizer.save_pretrained(folder)
