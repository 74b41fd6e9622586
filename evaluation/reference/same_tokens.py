"""When two learned tokens are the same: by their effect, not coordinate by coordinate."""

from __future__ import annotations

from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.tokens.files import TokenBundle, pack_bundle
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images

STRAY = 0.01
"""The largest distance between equal tokens, as a share of the distance that was learned.

The tiny pipeline's images change by several levels over the whole distance, so by none over a hundredth.
"""


def drawn_with(engine: EditorEngine, token: TokenBundle) -> Levels:
    """Draw two images with a token in their prompt."""
    ref = engine.store.put(pack_bundle(token))
    items = [GenerateItem(prompt="a photo of a <class>", seed=seed, token=ref) for seed in (1, 2)]
    outcomes = engine.generate(GenerateRequest(items=items, steps=2, guidance=2.0)).outcomes
    return stored_images(engine.store, [outcome.unwrap().image for outcome in outcomes])


def is_same_token(engine: EditorEngine, found: TokenBundle, wanted: TokenBundle) -> bool:
    """Return whether two tokens ended at the same point and draw the same images, up to rounding."""
    start = engine.pipeline.prompts.mean_embedding(wanted.description.initialiser)
    learned, apart = wanted.vectors - start, found.vectors - wanted.vectors
    if float(apart.norm()) > STRAY * float(learned.norm()):
        return False
    return levels_apart(drawn_with(engine, found), drawn_with(engine, wanted)) <= LEVELS


def is_same_learning(engine: EditorEngine, found: TokenBundle, wanted: TokenBundle) -> bool:
    """Return whether two tokens are the same and record the same origin."""
    return found.description == wanted.description and is_same_token(engine, found, wanted)
