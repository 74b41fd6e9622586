"""How often a sampled edit is right: by type, on seen and unseen templates and the captioner's words."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from peft import PeftModel
from transformers import Blip2ForConditionalGeneration, Blip2Processor, PreTrainedTokenizerFast

from faultline_core.text.caption_diff import compact_prompt
from faultline_core.types import Estimate, PerturbationType
from faultline_miniature.training.caption_data import scenes_of
from faultline_miniature.training.caption_text import TRAINED_TEMPLATES
from faultline_miniature.training.captioner_quality import captions
from faultline_miniature.training.edit_pairs import TYPES, succeeds
from faultline_miniature.training.figures import share, table
from faultline_miniature.training.publishing import write_card
from faultline_miniature.training.stage import StageContext
from faultline_miniature.world import UNIFORM, caption, scene_for
from faultline_miniature.world.grammar import WITHHELD_TEMPLATES
from faultline_miniature.world.seeds import VALIDATION

_BATCH = 100


def measured(
    model: PeftModel, tokenizer: PreTrainedTokenizerFast, context: StageContext, *, n: int
) -> dict[str, Estimate]:
    """Sample one edit of each caption and type at temperature 1 and judge it; figures by source and type."""
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
            # Anew for every figure, so that none depends on which were measured before it.
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
    # Answers begin where prompts end: on the right, padding would stand between them.
    tokenizer.padding_side = "left"
    edited: list[str] = []
    for start in range(0, len(texts), _BATCH):
        prompts = [compact_prompt(kind, text) for text in texts[start : start + _BATCH]]
        inputs = tokenizer(prompts, padding=True, return_tensors="pt")
        ids = model.generate(
            input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, do_sample=True, temperature=1.0,
            top_k=0, top_p=1.0, max_new_tokens=26,
        )  # fmt: skip
        edited += tokenizer.batch_decode(ids[:, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    return edited


def _own_captions(folder: Path, n: int) -> list[str]:
    """Return the trained captioner's captions of validation images; none while there is no captioner."""
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
