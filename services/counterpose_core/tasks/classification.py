"""One right class an image, or several that are as right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.tasks import (
    CLASSIFICATION,
    CLASSIFICATION_FIGURES,
    ClassificationTask,
    TaskFigures,
)
from counterpose_core.errors import InvalidRequest
from counterpose_core.tasks.probabilities import by_probability, class_probabilities, most_probable
from counterpose_core.tasks.truth import Truth
from counterpose_core.text.near_names import did_you_mean


class Classification:
    """Scores an answer by the probability of the true class and of those that are acceptable for it."""

    def __init__(self, settings: ClassificationTask, classes: Sequence[str]) -> None:
        """Make the task of a run.

        Raises:
            InvalidRequest: a class is named that the dataset lacks.
        """
        self._classes = classes
        self._places = {name: place for place, name in enumerate(classes)}
        self._acceptable = settings.acceptable
        for name in (name for item in settings.acceptable.items() for name in (item[0], *item[1])):
            if name not in self._places:
                raise InvalidRequest(
                    f"the dataset has no class {name!r}{did_you_mean(name, classes)}; the task's acceptable "
                    "classes are among its own",
                    pointer="/task/acceptable",
                )

    @staticmethod
    def figures(settings: ClassificationTask, labelled: int = 0) -> TaskFigures:
        """Return what its figures are called; ``labelled`` images have further labels."""
        rules = [*_of_classes(settings.acceptable), *_of_images(labelled)]
        if not rules:
            return CLASSIFICATION_FIGURES
        rule = (
            f"Several classes may be right: {', and '.join(rules)}. An answer is right if it is any of them, "
            "and its score is the sum of their probabilities."
        )
        return CLASSIFICATION_FIGURES.model_copy(update={"score": "p(right classes)", "rule": rule})

    def scored(self, prediction: Prediction, truth: Truth) -> Scored:
        """Score an answer: the sum over the right classes, right if the first is one of them.

        Raises:
            BadBackendOutput: it is not a probability for each class.
        """
        probabilities = class_probabilities(prediction, self._classes)
        order = by_probability(probabilities)
        acceptable = (*self._acceptable.get(truth.label, ()), *truth.labels)
        right = {self._places[name] for name in (truth.label, *acceptable)}
        rank = min(order.index(place) for place in right) + 1
        # A sum of rounded probabilities may exceed 1 by a little.
        score = min(1.0, float(probabilities[sorted(right)].sum()))
        return ranked(score, rank, most_probable(probabilities, order, self._classes))


def ranked(score: float, rank: int, shown: Sequence[tuple[str, float]]) -> Scored:
    """Return an answer whose first right class has a rank, from 1."""
    return Scored(score=score, hits=(rank == 1, rank <= 5), shown=list(shown), raw={"rank": rank})


def classification_of(classes: Sequence[str]) -> Classification:
    """Return the classification with one right class an image."""
    return Classification(CLASSIFICATION, classes)


def _of_classes(acceptable: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if acceptable:
        label, others = min(acceptable.items())
        rest = len(acceptable) - 1
        more = f", those of {rest} more class{'es' * (rest > 1)} by theirs" if rest else ""
        yield f"images of {label} may be answered by {', '.join(others)}{more}"


def _of_images(labelled: int) -> Iterator[str]:
    if labelled:
        yield f"{labelled} source images have further labels of their own"
