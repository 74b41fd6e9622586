"""Measures each model of the miniature suite alone, on validation seeds, by the grammar and the oracle.

    python -m evaluation.model_quality --out evaluation/results/model-quality.json

Text-to-image: the oracle looks for each attribute of the caption; combinations of class and attribute
withheld from training are counted apart. Captioner: the grammar reads each attribute from the caption.
Perturber: an edit succeeds if it consists of whole parts, changes exactly one attribute of its type and
keeps all other words; "in its template" also asks that an added part stands where the caption's own
template has it. It is given the captioner's captions and captions of a withheld template. Oracle: on
renderings.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.contract.perturber import PerturbItem, PerturbRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import decode_image
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import Suite, load_suite
from counterpose_core.types import EDIT_TYPES, EditType
from counterpose_miniature.training.edit_pairs import succeeds
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import caption, parse
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET, GENERATOR, UNIFORM, Distribution
from counterpose_miniature.world.scene import ATTRIBUTES, Scene, is_withheld
from counterpose_miniature.world.seeds import VALIDATION, scene_for
from counterpose_miniature.world.wording import TEMPLATES, WITHHELD_TEMPLATES
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.perturber.engine import PerturberEngine
from evaluation.oracle import Oracle
from evaluation.paths import SUITE_WEIGHTS

BATCH = 16
DRAWN_FROM = 500_000
"""Index into the validation split; the edit figures use other scenes."""

Figures = dict[str, Any]


def scenes(
    distribution: Distribution, n: int, wanted: Callable[[Scene], bool] = lambda scene: True
) -> list[Scene]:
    """The first ``n`` wanted scenes of the validation split."""
    drawn = (scene_for(VALIDATION, DRAWN_FROM + index, distribution) for index in range(1_000_000))
    return list(islice(filter(wanted, drawn), n))


def batches(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split into batches for a service, with a progress bar."""
    for start in tqdm(range(0, len(values), BATCH)):
        yield values[start : start + BATCH]


def share(hits: Sequence[bool]) -> Figures:
    """A proportion as {estimate, low, high, n}."""
    return proportion(sum(hits), len(hits)).model_dump()


def by_attribute(seen: Sequence[Mapping[str, str]], truth: Sequence[Scene]) -> Figures:
    """Share of agreement for each attribute, and for all of them at once."""
    pairs = [(one, scene.attributes()) for one, scene in zip(seen, truth, strict=True)]
    rows = {name: share([one.get(name) == true[name] for one, true in pairs]) for name in ATTRIBUTES}
    joint = share([all(one.get(name) == true[name] for name in ATTRIBUTES) for one, true in pairs])
    return rows | {"all_jointly": joint}


def text_to_image(
    engine: EditorEngine, store: BlobStore, oracle: Oracle, suite: Suite, truth: list[Scene]
) -> Figures:
    """What the oracle sees in generated images."""
    images: list[np.ndarray[Any, Any]] = []
    for batch in batches(truth):
        items = [GenerateItem(prompt=caption(scene), seed=scene.nuisance) for scene in batch]
        preset = PromptToPromptPreset.of(suite.editor.presets[suite.editor.default_preset])
        answer = engine.generate(GenerateRequest(items=items, steps=50, guidance=preset.guidance))
        images += [decode_image(store.get(outcome.unwrap().image)) for outcome in answer.outcomes]
    return by_attribute(oracle.attributes(np.stack(images)), truth)


def captions(engine: CaptionerEngine, store: BlobStore, truth: list[Scene]) -> list[str]:
    """Captions of the rendered scenes."""
    texts: list[str] = []
    for batch in batches(truth):
        items = [
            CaptionItem(image=store.put(encode_png(render(scene))), label=scene.object_class)
            for scene in batch
        ]
        texts += [outcome.unwrap().text for outcome in engine.caption(CaptionRequest(items=items)).outcomes]
    return texts


def in_its_template(before: str, after: str) -> bool:
    """Whether one template of the grammar yields both captions, word for word."""
    parsed = [parse(text) for text in (before, after)]
    if any(set(one) != set(ATTRIBUTES) for one in parsed):
        return False
    scenes = [Scene(**one, nuisance=0) for one in parsed]
    templates = range(len(TEMPLATES))
    return any([caption(scene, number) for scene in scenes] == [before, after] for number in templates)


def text_edits(engine: PerturberEngine, texts: Sequence[str]) -> Figures:
    """Success of one proposed edit a caption and type; a caption without a proposal counts as a failure."""
    rows: Figures = {}
    for edit_type in EDIT_TYPES:
        pairs = proposed(engine, texts, edit_type)
        right = [after is not None and succeeds(before, after, edit_type) for before, after in pairs]
        placed = [
            hit and after is not None and in_its_template(before, after)
            for hit, (before, after) in zip(right, pairs, strict=True)
        ]
        rows[edit_type] = share(right)
        rows[f"{edit_type}_in_its_template"] = share(placed)
    return rows


def proposed(
    engine: PerturberEngine, texts: Sequence[str], edit_type: EditType
) -> list[tuple[str, str | None]]:
    """Each caption with the first edit proposed for it, None where there is none."""
    pairs: list[tuple[str, str | None]] = []
    for batch in batches(list(enumerate(texts))):
        items = [
            PerturbItem(caption=text, perturbation_type=edit_type, n=1, seed=number) for number, text in batch
        ]
        answer = engine.perturb(PerturbRequest(items=items))
        for (_, text), outcome in zip(batch, answer.outcomes, strict=True):
            edits = outcome.unwrap().edits
            pairs.append((text, edits[0].edited_caption if edits else None))
    return pairs


def measure(n: int, store: BlobStore) -> Figures:
    """All figures."""
    suite = load_suite("miniature")
    oracle = Oracle.load()
    editor = EditorEngine.load(suite.editor, SUITE_WEIGHTS, store)
    captioner = CaptionerEngine.load(suite.captioner, SUITE_WEIGHTS, store)
    perturber = PerturberEngine.load(suite.perturber, SUITE_WEIGHTS)
    depicted = scenes(DATASET, n)
    texts = captions(captioner, store, depicted)
    template = WITHHELD_TEMPLATES[0]
    return {
        "oracle_on_renderings": by_attribute(
            oracle.attributes(np.stack([render(scene) for scene in scenes(UNIFORM, 1000)])),
            scenes(UNIFORM, 1000),
        ),
        "text_to_image": text_to_image(editor, store, oracle, suite, scenes(GENERATOR, n)),
        "text_to_image_withheld": text_to_image(
            editor, store, oracle, suite, scenes(UNIFORM, n // 4, is_withheld)
        ),
        "captioner": by_attribute([parse(text) for text in texts], depicted),
        "text_edits_on_own_captions": text_edits(perturber, texts),
        "text_edits_on_withheld_template": text_edits(
            perturber, [caption(scene, template) for scene in scenes(DATASET, n)]
        ),
    }


def main() -> None:
    """Measure and write the result file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=400, help="images or captions per figure")
    parser.add_argument("--out", type=Path, required=True, help="result file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.n, BlobStore(folder))
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
