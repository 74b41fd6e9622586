"""The scorer's two text models: masked language model and sentence encoder."""

from __future__ import annotations

from faultline_core.types import Estimate
from faultline_miniature.training.masked_lm import train_masked_lm
from faultline_miniature.training.sentence_encoder import train_sentence_encoder
from faultline_miniature.training.stage import StageContext, figures_of, finish, stage_log, use_threads

STAGE = "language"


def train(context: StageContext) -> None:
    """Train both unless the stage is finished."""
    if figures_of(context, STAGE) is not None:
        return
    use_threads(context.threads)
    with stage_log(context, STAGE) as logger:
        figures = {
            "masked-lm": train_masked_lm(context, logger),
            "sentence": train_sentence_encoder(context, logger),
        }
    finish(context, STAGE, {name: _plain(found) for name, found in figures.items()})


def _plain(figures: dict[str, Estimate]) -> dict[str, object]:
    return {name: figure.model_dump() for name, figure in figures.items()}
