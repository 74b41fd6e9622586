"""The paper's headline against rendered truth: is a token's accuracy nearer to it than the class name's?"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers

from .confounding import Confounding, ImageSources, confounding
from .images import simulated_answers
from .report import Cell, ConfoundingFigures, ErrorFigures


def confounding_figures(
    truth: ModelAnswers,
    token: ModelAnswers,
    class_name: ModelAnswers,
    mismatched: Collection[str],
    generator: np.random.Generator,
) -> ConfoundingFigures:
    """Compare both image sources with the truth: over all, mismatched and matched classes, and each class.

    Raises:
        ValueError: the three are not of the same conditions, classes and models.
    """
    every = (truth, token, class_name)
    if len({(each.conditions, each.classes, each.models) for each in every}) > 1:
        raise ValueError("truth and image sources differ in conditions, classes or models")

    def over(classes: Collection[str]) -> Confounding:
        found = ImageSources(
            truth.shifts,
            tuple(name for name in truth.classes if name in classes),
            *(simulated_answers(each, classes) for each in every),
        )
        return confounding(found, generator)

    whole = over(truth.classes)
    return ConfoundingFigures(
        all=_errors(whole),
        mismatched=_errors(over(mismatched)),
        matched=_errors(over([name for name in truth.classes if name not in mismatched])),
        by_class={name: _errors(over([name])) for name in truth.classes},
        cells=[
            Cell(
                shift=cell.shift,
                class_name=cell.class_,
                truth=cell.truth,
                token=cell.token,
                by_class_name=cell.class_name,
            )
            for cell in whole.cells
        ],
    )


def _errors(found: Confounding) -> ErrorFigures:
    return ErrorFigures(
        token_error=found.token_error,
        class_name_error=found.class_name_error,
        difference=found.difference,
    )
