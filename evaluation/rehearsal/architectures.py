"""The configurations of published networks, and the same networks shrunk for tests.

Hidden sizes, layers and vocabularies are facts of the published configuration files, written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import open_clip
import timm
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    Blip2Config,
    Blip2ForConditionalGeneration,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    DistilBertConfig,
    DistilBertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from evaluation.benchmarks.device.networks import Architecture, Model

Size = Literal["published", "tiny"]
CLIP_VOCABULARY, CLIP_LENGTH = 49_408, 77
BLIP2_VOCABULARY, BLIP2_IMAGE_TOKEN = 50_304, 50_265
LLAMA_VOCABULARY, BERT_VOCABULARY = 32_000, 30_522
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """A network: built on the default device, with the configuration that its folder has."""

    build: Callable[[], nn.Module]

    def on_meta(self) -> nn.Module:
        """Build it without memory."""
        with torch.device("meta"):
            return self.build().eval()


def blip2(size: Size) -> Published:
    """``Salesforce/blip2-opt-2.7b``: EVA ViT-g/14, a Q-Former of 32 queries, OPT-2.7B."""
    vision: dict[str, Any] = {
        "hidden_size": 1408, "intermediate_size": 6144, "num_hidden_layers": 39, "num_attention_heads": 16,
        "image_size": 224, "patch_size": 14,
    }  # fmt: skip
    queries: dict[str, Any] = {
        "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "cross_attention_frequency": 2, "encoder_hidden_size": 1408,
    }  # fmt: skip
    language: dict[str, Any] = {
        "model_type": "opt", "vocab_size": BLIP2_VOCABULARY, "hidden_size": 2560, "ffn_dim": 10240,
        "word_embed_proj_dim": 2560, "num_hidden_layers": 32, "num_attention_heads": 32,
        "max_position_embeddings": 2048, "bos_token_id": 2, "eos_token_id": 50118, "pad_token_id": 1,
    }  # fmt: skip
    if size == "tiny":
        vision |= {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        }
        queries |= {
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
            "encoder_hidden_size": 16,
        }  # fmt: skip
        language |= {
            "hidden_size": 16, "ffn_dim": 32, "word_embed_proj_dim": 16, "num_hidden_layers": 2,
            "num_attention_heads": 2,
        }  # fmt: skip
    config = Blip2Config(
        vision_config=vision, qformer_config=queries, text_config=language, num_query_tokens=32,
        image_token_index=BLIP2_IMAGE_TOKEN,
    )  # fmt: skip
    return Published(lambda: Blip2ForConditionalGeneration(config))


def llama_7b(size: Size) -> Published:
    """``huggyllama/llama-7b``."""
    fields: dict[str, Any] = {
        "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    }  # fmt: skip
    if size == "tiny":
        fields |= {
            "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        }  # fmt: skip
    config = LlamaConfig(
        vocab_size=LLAMA_VOCABULARY, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, **fields
    )
    return Published(lambda: LlamaForCausalLM(config))


_VIT_L: Fields = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "quick_gelu",
}  # fmt: skip
TEXT_ENCODERS: Mapping[str, Fields] = {
    "sd14": _VIT_L,
    "sd2": {"hidden_size": 1024, "num_hidden_layers": 23, "num_attention_heads": 16, "hidden_act": "gelu"},
    "sdxl-1": _VIT_L,
    "sdxl-2": {
        "hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 20, "hidden_act": "gelu",
        "projection_dim": 1280,
    },
}  # fmt: skip


def text_encoder(name: str, size: Size) -> Published:
    """CLIP's text tower as an editor reads it; the second one of SDXL has a projection."""
    fields = dict(TEXT_ENCODERS[name])
    if size == "tiny":
        fields |= {
            "num_hidden_layers": 2,
            "hidden_size": fields["hidden_size"] // 64,
            "num_attention_heads": 2,
        }
        fields |= {"projection_dim": fields["projection_dim"] // 64} if "projection_dim" in fields else {}
    config = CLIPTextConfig(
        vocab_size=CLIP_VOCABULARY, intermediate_size=4 * fields["hidden_size"],
        max_position_embeddings=CLIP_LENGTH, bos_token_id=0, eos_token_id=2, pad_token_id=1, **fields,
    )  # fmt: skip
    kind = CLIPTextModelWithProjection if name == "sdxl-2" else CLIPTextModel
    return Published(lambda: kind(config))


def unet(model: Model, size: Size) -> Published:
    """The UNet of Stable Diffusion 1.4, 2 or XL, as `make bench` measures it."""
    config = _editor(model, size)["unet"]
    return Published(lambda: UNet2DConditionModel.from_config(config))


def autoencoder(model: Model, size: Size) -> Published:
    """The autoencoder beside it."""
    config = _editor(model, size)["vae"]
    return Published(lambda: AutoencoderKL.from_config(config))


def _editor(model: Model, size: Size) -> dict[str, dict[str, Any]]:
    published = Architecture.read(model)
    parts = {"unet": dict(published.unet), "vae": dict(published.vae)}
    if size == "published":
        return parts
    small = published.small()
    parts = {"unet": dict(small.unet), "vae": dict(small.vae)}
    # The width of the shrunk text encoders.
    parts["unet"]["cross_attention_dim"] = published.unet["cross_attention_dim"] // 64
    if "addition_embed_type" in parts["unet"]:
        sizes = 6 * parts["unet"]["addition_time_embed_dim"]
        parts["unet"]["projection_class_embeddings_input_dim"] = 1280 // 64 + sizes
    return parts


def clip(architecture: str, size: Size) -> tuple[Published, dict[str, Any]]:
    """An open_clip model by its name there, and its configuration."""
    config: dict[str, Any] = dict(open_clip.get_model_config(architecture) or {})
    if size == "tiny":
        config |= {
            "embed_dim": 16,
            "vision_cfg": {
                "image_size": 224, "layers": 2, "width": 32, "head_width": 16, "patch_size": 56,
            },
            "text_cfg": config["text_cfg"] | {"width": 32, "heads": 2, "layers": 2},
        }  # fmt: skip
    return Published(lambda: open_clip.CLIP(**config)), config


def sentence_encoder(size: Size) -> Published:
    """``sentence-transformers/all-MiniLM-L6-v2``."""
    fields: dict[str, Any] = {
        "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536,
    }  # fmt: skip
    if size == "tiny":
        fields |= {"hidden_size": 24, "num_hidden_layers": 1, "intermediate_size": 32}
    config = BertConfig(vocab_size=BERT_VOCABULARY, **fields)
    return Published(lambda: BertModel(config))


def masked_language_model(size: Size) -> Published:
    """``distilbert/distilbert-base-uncased``."""
    fields: dict[str, Any] = {"dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12}
    if size == "tiny":
        fields |= {"dim": 24, "hidden_dim": 32, "n_layers": 1}
    config = DistilBertConfig(vocab_size=BERT_VOCABULARY, **fields)
    return Published(lambda: DistilBertForMaskedLM(config))


def resnet(size: Size) -> tuple[Published, str]:
    """timm's ResNet-50, and the name of its architecture."""
    name = "resnet50" if size == "published" else "test_resnet"
    return Published(lambda: timm.create_model(name, num_classes=1000)), name
