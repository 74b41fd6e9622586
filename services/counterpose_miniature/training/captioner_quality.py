"""The captioner's quality: its captions, parsed and compared with the scenes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from transformers import Blip2ForConditionalGeneration, Blip2Processor

from counterpose_core.types import Estimate
from counterpose_miniature.training.caption_data import LABEL_PREFIX, scenes_of
from counterpose_miniature.training.caption_text import templates_of
from counterpose_miniature.training.figures import share, table
from counterpose_miniature.training.publishing import write_card
from counterpose_miniature.world import ATTRIBUTES, UNIFORM, Scene, is_withheld, parse, render, scene_for
from counterpose_miniature.world.seeds import VALIDATION

_BATCH = 50


def measured(
    model: Blip2ForConditionalGeneration, processor: Blip2Processor, *, n: int
) -> dict[str, Estimate]:
    """Caption validation images by beam search with 5 beams and count correct values."""
    plain = scenes_of(VALIDATION, n)
    texts = list(captions(model, processor, plain))
    figures = {name: share(_right(plain, texts, name), n) for name in ATTRIBUTES}
    figures["all seven"] = share(
        sum(parse(text) == scene.attributes() for scene, text in zip(plain, texts, strict=True)), n
    )
    figures["well formed"] = share(sum(bool(templates_of(text)) for text in texts), n)
    strange = _withheld_scenes(max(1, n // 3))
    texts = list(captions(model, processor, strange))
    hits = sum(parse(text) == scene.attributes() for scene, text in zip(strange, texts, strict=True))
    figures["all seven, withheld combinations"] = share(hits, len(strange))
    return figures | _prefixed(model, processor, plain[: max(1, n // 3)])


def captions(
    model: Blip2ForConditionalGeneration,
    processor: Blip2Processor,
    scenes: list[Scene],
    prefix: str | None = None,
) -> Iterator[str]:
    """Yield the caption of each scene's image; `prefix` may contain `{label}`."""
    for start in range(0, len(scenes), _BATCH):
        some = scenes[start : start + _BATCH]
        images = [render(scene) for scene in some]
        # Prompts of a call have one length, because they differ only in the class name, which is one word.
        texts = [(prefix or "").format(label=scene.object_class) for scene in some]
        inputs = processor(images=images, text=texts, return_tensors="pt")
        least = 0 if prefix else 4
        ids = model.generate(**inputs, num_beams=5, min_new_tokens=least, max_new_tokens=22)
        yield from processor.batch_decode(ids, skip_special_tokens=True)


def _right(scenes: list[Scene], texts: list[str], attribute: str) -> int:
    pairs = zip(scenes, texts, strict=True)
    return sum(parse(text).get(attribute) == getattr(scene, attribute) for scene, text in pairs)


def _withheld_scenes(count: int) -> list[Scene]:
    """Return validation scenes with a combination that is not in the training."""
    found: list[Scene] = []
    index = 0
    while len(found) < count:
        scene = scene_for(VALIDATION, index, UNIFORM)
        found += [scene] if is_withheld(scene) else []
        index += 1
    return found


def _prefixed(
    model: Blip2ForConditionalGeneration, processor: Blip2Processor, scenes: list[Scene]
) -> dict[str, Estimate]:
    texts = list(captions(model, processor, scenes, LABEL_PREFIX))
    names = ("background", "weather", "companion")
    found = [
        parse(f"{LABEL_PREFIX.format(label=scene.object_class)} {text}")
        for scene, text in zip(scenes, texts, strict=True)
    ]
    hits = sum(
        all(values.get(name) == getattr(scene, name) for name in names)
        for scene, values in zip(scenes, found, strict=True)
    )
    return {"background, weather and companion after a label": share(hits, len(scenes))}


def write_captioner_card(folder: Path, figures: dict[str, Estimate]) -> None:
    """Write the captioner's model card."""
    about = (
        "A `Blip2ForConditionalGeneration`: vision transformer (64 px, patches of 8, 4 layers, width 128), "
        "Q-Former with 8 queries, OPT of 2 layers, word-level tokenizer. Trained from nothing on rendered "
        "scenes that hold no withheld combination; it says one template of the grammar. A prompt such as `a "
        "photo of a boat` is continued and then leaves colour and style to the prompt. Validation seeds, "
        "beam search with 5 beams."
    )
    write_card(folder, "Captioner of the miniature suite", [about, table(figures, "caption is right in")])
