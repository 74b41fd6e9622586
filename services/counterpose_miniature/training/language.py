"""The scorer's two text models: masked language model and sentence encoder."""

from __future__ import annotations

import logging
from typing import Any

from counterpose_core.types import Estimate
from counterpose_miniature.training.masked_lm import train_masked_lm
from counterpose_miniature.training.sentence_encoder import train_sentence_encoder
from counterpose_miniature.training.stage import StageContext, training_stage

STAGE = "language"


@training_stage(STAGE)
def train(context: StageContext, logger: logging.Logger) -> dict[str, Any]:
    """Train both unless the stage is finished."""
    figures = {
        "masked-lm": train_masked_lm(context, logger),
        "sentence": train_sentence_encoder(context, logger),
    }
    return {name: _plain(found) for name, found in figures.items()}


def _plain(figures: dict[str, Estimate]) -> dict[str, object]:
    return {name: figure.model_dump() for name, figure in figures.items()}
