"""The targets for an interface's figures, and whether each is reached."""

from __future__ import annotations

from collections.abc import Collection

from counterpose_core.types import Estimate

from .report import (
    Aim,
    BatchingFigures,
    ConfoundingFigures,
    ErrorFigures,
    ImageSourceComparison,
    ImpactFigures,
)

MOST_TOKEN_ERROR = 0.10
MOST_SHARE_OF_NAME_ERROR = 0.5
MOST_WORSE = 0.03
LEAST_MATCHED = 4
LEAST_PRESENCE = 0.8
LEAST_RANK_CORRELATION = 0.7
LEAST_FASTER_TOKENS = 2.0
LEAST_FASTER_IMAGES = 2.5
MOST_DIFFERENCE = 1e-4


def aims(
    confounding: ConfoundingFigures,
    mismatched: Collection[str],
    image_sources: ImageSourceComparison,
    impact: ImpactFigures,
    batching: BatchingFigures,
) -> list[Aim]:
    """Compare the figures with their targets; the estimate decides, and its interval is reported with it."""
    errors = confounding.mismatched
    no_worse = [
        name
        for name, each in confounding.by_class.items()
        if name not in mismatched and _at_most(each.difference, MOST_WORSE)
    ]
    share = _share(errors)
    return [
        Aim(
            name="token error, mismatched classes",
            aim=f"<= {MOST_TOKEN_ERROR}",
            reached=_interval(errors.token_error),
            met=_at_most(errors.token_error, MOST_TOKEN_ERROR),
        ),
        Aim(
            name="token error as a share of the class name's, mismatched classes",
            aim=f"<= {MOST_SHARE_OF_NAME_ERROR}",
            reached="unknown" if share is None else f"{share:.2f}",
            met=None if share is None else share <= MOST_SHARE_OF_NAME_ERROR,
        ),
        Aim(
            name=f"matched classes whose token is no worse by more than {MOST_WORSE}",
            aim=f">= {LEAST_MATCHED}",
            reached=", ".join(no_worse) or "none",
            met=len(no_worse) >= LEAST_MATCHED,
        ),
        _at_least(
            "shift presence as a share of the class name's", image_sources.presence_ratio, LEAST_PRESENCE
        ),
        _at_least("rank correlation of impacts", impact.rank_correlation, LEAST_RANK_CORRELATION),
        *_of_batches(batching),
    ]


def _of_batches(batching: BatchingFigures) -> list[Aim]:
    difference = batching.tokens_difference
    return [
        _at_least(
            "eight classes in one batch, times as fast as one by one", batching.tokens, LEAST_FASTER_TOKENS
        ),
        Aim(
            name="vectors learned together and alone, largest difference in float64",
            aim=f"<= {MOST_DIFFERENCE:g}",
            reached="unknown" if difference.estimate is None else f"{difference.estimate:.1e}",
            met=_at_most(difference, MOST_DIFFERENCE),
        ),
        _at_least(
            "16 images in one batch, times as fast as one at a time",
            batching.generation,
            LEAST_FASTER_IMAGES,
        ),
    ]


def _at_most(found: Estimate, most: float) -> bool | None:
    return None if found.estimate is None else found.estimate <= most


def _at_least(name: str, found: Estimate, least: float) -> Aim:
    met = None if found.estimate is None else found.estimate >= least
    return Aim(name=name, aim=f">= {least}", reached=_interval(found), met=met)


def _share(errors: ErrorFigures) -> float | None:
    token, name = errors.token_error.estimate, errors.class_name_error.estimate
    return None if token is None or not name else token / name


def _interval(found: Estimate) -> str:
    if found.estimate is None:
        return "unknown"
    return f"{found.estimate:.3f} ({found.low:.3f} to {found.high:.3f}, n {found.n})"
