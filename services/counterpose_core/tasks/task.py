"""What every task can do."""

from __future__ import annotations

from typing import Any, Protocol

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.tasks import TaskFigures
from counterpose_core.tasks.truth import Truth


class Task(Protocol):
    """Judges a model's answer to an image by what the image shows."""

    @staticmethod
    def figures(settings: Any, labelled: int = 0) -> TaskFigures:
        """Return what the figures of a task with these settings are called.

        Args:
            settings: those of a request.
            labelled: the number of source images that have further labels.
        """

    def scored(self, prediction: Prediction, truth: Truth) -> Scored:
        """Score an answer.

        Args:
            prediction: what the model answers, one probability for each class of the dataset.
            truth: what the image shows.

        Raises:
            BadBackendOutput: the answer is none that the task can read.
            InvalidRequest: the image has a label that the dataset lacks.
        """
