"""The perturber: a small LLaMA as base, and a LoRA adapter that edits captions (LANCE, section 3.1)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    Blip2ForConditionalGeneration,
    Blip2Processor,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from counterpose_core.text.caption_diff import compact_prompt
from counterpose_core.types import Estimate, PerturbationType
from counterpose_miniature.training.caption_data import scenes_of
from counterpose_miniature.training.caption_text import TRAINED_TEMPLATES, drawn
from counterpose_miniature.training.captioner_quality import captions
from counterpose_miniature.training.edit_pairs import (
    PLANS,
    PROMPT_WORDS,
    TYPES,
    asked_edit,
    base_text,
    succeeds,
)
from counterpose_miniature.training.figures import share, table
from counterpose_miniature.training.fitting import Recipe, fit, next_word_loss, prompted
from counterpose_miniature.training.publishing import save_half, write_card
from counterpose_miniature.training.stage import Checkpoint, StageContext, training_stage
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import UNIFORM, caption, scene_for
from counterpose_miniature.world.seeds import VALIDATION
from counterpose_miniature.world.wording import WITHHELD_TEMPLATES

_SAMPLED_AT_ONCE = 100
STAGE = "perturber"
_STREAM = 0x11A3
_BATCH = 64
_LOOSE = 0.25


def measured(
    model: PeftModel, tokenizer: PreTrainedTokenizerFast, context: StageContext, *, n: int
) -> dict[str, Estimate]:
    """Sample and judge one edit for each caption and type, at temperature 1; figures by source and type."""
    scenes = [scene_for(VALIDATION, index, UNIFORM) for index in range(n)]
    templates = itertools.cycle(TRAINED_TEMPLATES)
    seen = [caption(scene, template) for scene, template in zip(scenes, templates, strict=False)]
    sources = {
        "trained templates": seen,
        "withheld template": [caption(scene, WITHHELD_TEMPLATES[0]) for scene in scenes],
        "captioner's captions": _own_captions(context.out / "captioner", n),
    }
    figures: dict[str, Estimate] = {}
    for source, texts in sources.items():
        for kind in TYPES if texts else ():
            # Seeded for every figure, so that none depends on the figures measured before.
            torch.manual_seed(context.seed)
            edited = sampled_edits(model, tokenizer, texts, kind)
            hits = sum(succeeds(before, after, kind) for before, after in zip(texts, edited, strict=True))
            figures[f"{source}, {kind}"] = share(hits, len(texts))
    return figures


@torch.no_grad()
def sampled_edits(
    model: PeftModel, tokenizer: PreTrainedTokenizerFast, texts: list[str], kind: PerturbationType
) -> list[str]:
    """Sample one edit of each caption, temperature 1, from torch's global generator."""
    # On the left, because padding on the right would separate prompts from answers.
    tokenizer.padding_side = "left"
    edited: list[str] = []
    for start in range(0, len(texts), _SAMPLED_AT_ONCE):
        prompts = [compact_prompt(kind, text) for text in texts[start : start + _SAMPLED_AT_ONCE]]
        inputs = tokenizer(prompts, padding=True, return_tensors="pt")
        ids = model.generate(
            input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, do_sample=True, temperature=1.0,
            top_k=0, top_p=1.0, max_new_tokens=26,
        )  # fmt: skip
        edited += tokenizer.batch_decode(ids[:, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    return edited


def _own_captions(folder: Path, n: int) -> list[str]:
    """Return the trained captioner's captions of validation images; none if there is no captioner."""
    if not (folder / "config.json").exists():
        return []
    model = Blip2ForConditionalGeneration.from_pretrained(folder).eval()
    return list(captions(model, Blip2Processor.from_pretrained(folder), scenes_of(VALIDATION, n)))


def write_perturber_card(folder: Path, figures: dict[str, Estimate]) -> None:
    """Write the perturber's model card."""
    about = (
        "A `LlamaForCausalLM` of 4 layers and width 128 over the closed vocabulary, trained from nothing to "
        "tell, copy, vary, take apart and edit captions, and in `adapter/` a PEFT LoRA (rank 8, alpha 16, "
        "dropout 0.05 on q, k and v) trained on pairs of captions with the base frozen. The prompt is "
        "`<type> : <caption> =>`, types subject, object, background, adjective, domain and placebo; the "
        "answer is a special word that plans which attribute changes, skipped in decoding, and the edited "
        "caption. One subject edit in five swaps the class, as the label filter must drop. An edit succeeds "
        "when it consists of whole parts in the old order, changes exactly one attribute of its type and "
        "keeps all other wording; a part that is added may stand anywhere between others; a placebo changes "
        "wording and no attribute. Validation seeds, withheld combinations included, one sample a caption "
        "at temperature 1."
    )
    write_card(folder, "Perturber of the miniature suite", [about, table(figures, "success on")])


@training_stage(STAGE)
def train(context: StageContext, logger: logging.Logger) -> dict[str, Any]:
    """Train the base on text, then the adapter on pairs; measure and save both."""
    torch.manual_seed(context.seed)
    tokenizer = caption_tokenizer(*PROMPT_WORDS, closing=False, max_length=64)
    tokenizer.add_tokens(list(PLANS), special_tokens=True)
    base = LlamaForCausalLM(_config(tokenizer))
    base.set_attn_implementation("eager")
    folder = context.out / STAGE
    _teach_base(base, tokenizer, context, logger)
    save_half(base, folder)
    tokenizer.save_pretrained(folder)
    model = _adapted(base)
    _teach_adapter(model, tokenizer, context, logger)
    _save_adapter(model, folder / "adapter")
    figures = measured(model, tokenizer, context, n=4 if context.smoke else 300)
    write_perturber_card(folder, figures)
    return {name: figure.model_dump() for name, figure in figures.items()}


def _config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip


def _adapted(base: LlamaForCausalLM) -> PeftModel:
    """Wrap the base, which stays frozen, with the LoRA of LANCE's Table 6, on q, k and v."""
    settings = LoraConfig(
        r=8,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj"],
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, settings)


def _teach_base(
    base: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, context: StageContext, logger: logging.Logger
) -> None:
    def loss_at(step: int) -> torch.Tensor:
        generator = np.random.default_rng([context.seed, _STREAM, 0, step])
        return answer_loss(base, tokenizer, (base_text(generator) for _ in range(_BATCH)))

    recipe = Recipe(steps=5 if context.smoke else 4000, rate=2e-3)
    fit(base, loss_at, recipe, Checkpoint(context.folder(STAGE), "base.pt"), logger)


def _teach_adapter(
    model: PeftModel, tokenizer: PreTrainedTokenizerFast, context: StageContext, logger: logging.Logger
) -> None:
    def loss_at(step: int) -> torch.Tensor:
        generator = np.random.default_rng([context.seed, _STREAM, 1, step])
        kinds = (drawn(TYPES, generator) for _ in range(_BATCH))
        texts = (asked_edit(kind, generator, loose=_LOOSE) for kind in kinds)
        return answer_loss(model, tokenizer, texts)

    # No weight decay, which would shrink the adapter towards the plain base.
    recipe = Recipe(steps=5 if context.smoke else 1500, rate=4e-3, weight_decay=0.0)
    fit(model, loss_at, recipe, Checkpoint(context.folder(STAGE), "adapter.pt"), logger)


def answer_loss(
    model: PreTrainedModel | PeftModel, tokenizer: PreTrainedTokenizerFast, texts: Iterable[tuple[str, str]]
) -> torch.Tensor:
    """Return the mean cross-entropy of the answers with their end tokens, given the prompts."""
    end = tokenizer.eos_token_id
    pairs = (
        (tokenizer(prompt).input_ids, [*tokenizer(answer, add_special_tokens=False).input_ids, end])
        for prompt, answer in texts
    )
    ids, wanted = prompted(pairs, tokenizer.pad_token_id)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long()).logits
    return next_word_loss(logits, wanted)


def _save_adapter(model: PeftModel, folder: Path) -> None:
    """Save the adapter in fp16, without paths of this machine."""
    # PEFT records the path of the base, here and in its model card.
    model.peft_config["default"].base_model_name_or_path = ""
    model.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_model.safetensors"
    save_file({name: value.to(torch.float16) for name, value in load_file(file).items()}, file)
