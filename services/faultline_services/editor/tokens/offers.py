"""The bundles that a class offers once it has learned: its token at each interpolation weight asked for."""

from __future__ import annotations

import torch
from torch import Tensor

from faultline_core.blobs import cache_key
from faultline_core.contract.tokens import OWN_PROMPTS, LearnTokensRequest, TokenDescription, TokenOffer
from faultline_core.editing.textual_inversion import pinned
from faultline_services.editor.call import EngineCall
from faultline_services.editor.tokens.bundle import TokenBundle, pack_bundle
from faultline_services.editor.tokens.checkpoint import Checkpoint
from faultline_services.editor.tokens.learning_task import LearningTask


def token_offers(
    call: EngineCall, request: LearnTokensRequest, task: LearningTask, end: Checkpoint
) -> list[TokenOffer]:
    """Store a bundle for each interpolation weight between the initialiser and the learned token.

    Args:
        call: the call under way.
        request: the preset and the seed.
        task: the class, and where its vectors (k, D) started.
        end: where they ended.
    """
    model, offers = call.pipeline.identity, []
    for weight in dict.fromkeys(request.preset.interpolation_weights):
        description = TokenDescription(
            class_name=task.item.class_name,
            initialiser=task.initialiser,
            model=model,
            width=end.state.vectors.shape[1],
            vectors=end.state.vectors.shape[0],
            steps=end.state.step,
            pin_norm=request.preset.pin_norm,
            interpolation_weight=weight,
            templates=request.preset.templates.name if task.item.prompts is None else OWN_PROMPTS,
            images=len(task.images),
            data_digest=cache_key(images=[each.image for each in task.images]),
            seed=request.seed,
        )
        vectors = _interpolated(task.initial, end.state.vectors, weight, pin_norm=request.preset.pin_norm)
        ref = call.store.put(pack_bundle(TokenBundle(vectors, description)))
        offers.append(TokenOffer(interpolation_weight=weight, bundle=ref))
    return offers


def _interpolated(initial: Tensor, learned: Tensor, weight: float, *, pin_norm: bool) -> Tensor:
    """Return the vectors (k, D) at ``weight`` of the way from the initial to the learned ones (k, D)."""
    # As the text encoder saw them: the optimiser's own vectors may have any length.
    seen = pinned(learned, initial) if pin_norm else learned
    mixed = torch.lerp(initial, seen, weight)
    return pinned(mixed, initial) if pin_norm else mixed
