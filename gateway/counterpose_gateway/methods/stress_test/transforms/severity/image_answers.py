"""The images of operations that classifiers are asked about: all, or those that find where one fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.recipes import Recipe
from counterpose_core.contract.runs import TransformedImage
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import BackendError, CounterposeError
from counterpose_core.stress_test.severity.draw import Share, share_of
from counterpose_core.stress_test.severity.failure_points import next_level
from counterpose_core.tasks import Truth, task_of
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.steps.predictions import Answers, classify_images

IMAGES_A_CALL = 32
"""Images that one call makes and answers: seconds on a processor; a caller renews its lease in between."""

Wanted = Mapping[str, Sequence[Recipe]]
"""The images that each classifier is asked about."""


def classes_of(config: StressTestConfig, classifier: str) -> list[str]:
    """The classes that a classifier may answer: the dataset's, and its own besides if they are asked for."""
    others = {} if config.transforms is None else config.transforms.others
    return [*config.classes, *others.get(classifier, ())]


def share(config: StressTestConfig, source: str) -> Share:
    """Return what becomes of an image, the same for all of its group; `full` where nothing is adaptive."""
    plan = config.transforms
    if plan is None or plan.severity is None or not plan.is_adaptive:
        return "full"
    group = config.groups.get(source, source)
    generator = np.random.default_rng(derive_seed(config.request.seed, "severity", group))
    return share_of(generator, plan.severity.full_share)


@dataclass(frozen=True)
class ImageAtLevel:
    """An image: what it is called, at which level, and how it is made."""

    operation: str
    level: int
    recipe: Recipe


@dataclass
class ImageAnswers:
    """What the classifiers of a run say of one photograph: asked for images part by part.

    With ``spare``, a classifier that is down is left out, if another one is not.
    """

    calls: Calls
    config: StressTestConfig
    item: LeasedItem
    spare: bool
    pairs: dict[Recipe, dict[str, Scored]] = field(default_factory=dict)
    pixels: dict[Recipe, set[str]] = field(default_factory=dict)
    missing: dict[Recipe, dict[str, str]] = field(default_factory=dict)

    async def ask(self, wanted: Wanted) -> None:
        """Predict images; one that a classifier could not answer is without its prediction, and says why.

        Raises:
            BackendError: a classifier is down, or none answered the control.
        """
        alike: dict[tuple[Recipe, ...], list[str]] = {}
        for name, recipes in wanted.items():
            alike.setdefault(tuple(recipes), []).append(name)
        await together(self._ask_each(names, recipes) for recipes, names in alike.items())

    async def _ask_each(self, names: Sequence[str], recipes: Sequence[Recipe]) -> None:
        for first in range(0, len(recipes), IMAGES_A_CALL):
            part = recipes[first : first + IMAGES_A_CALL]
            self._take(part, await self._spared(names, [str(each) for each in part]))

    async def bisect(self, levels: Mapping[str, Sequence[Recipe]]) -> None:
        """Ask each classifier that is right on the control for as few levels as find where it fails.

        Args:
            levels: the images of each operation, the easiest first.

        Raises:
            BackendError: a classifier is down.
        """
        while wanted := {
            name: recipes
            for name in self.config.request.classifiers
            if self._right(self.control, name) and (recipes := list(self._next(name, levels)))
        }:
            await self.ask(wanted)

    @property
    def control(self) -> Recipe:
        """The image with nothing changed: it is asked for first."""
        return next(iter(self.pairs))

    def made(self, order: Iterable[ImageAtLevel]) -> list[TransformedImage]:
        """The images that were asked for, in an order, with the answers."""
        return [
            TransformedImage(
                operation=each.operation,
                level=each.level,
                recipe=str(each.recipe),
                pixels=_only(self.pixels[each.recipe]),
                predictions=self.pairs[each.recipe],
                problem=next(iter(self.missing[each.recipe].values()), None),
            )
            for each in order
            if each.recipe in self.pairs
        ]

    @property
    def unanswered(self) -> dict[str, str]:
        """Why a classifier has no prediction for an image, by classifier: the first reason."""
        reasons: dict[str, str] = {}
        for missing in self.missing.values():
            reasons = missing | reasons
        return reasons

    def _right(self, recipe: Recipe, name: str) -> bool:
        pair = self.pairs.get(recipe, {}).get(name)
        return pair is not None and pair.right

    def _next(self, name: str, levels: Mapping[str, Sequence[Recipe]]) -> Iterator[Recipe]:
        """The image of each operation that a classifier is asked next; none where one was not answered."""
        for recipes in levels.values():
            own = {each.level: each for each in recipes}
            if any(name in self.missing.get(each, ()) for each in recipes):
                continue
            right = {
                level: self._right(each, name)
                for level, each in own.items()
                if name in self.pairs.get(each, ())
            }
            level = next_level(list(own), right)
            if level is not None:
                yield own[level]

    def _take(self, recipes: Sequence[Recipe], answers: Mapping[str, Answers]) -> None:
        for recipe in recipes:
            pairs, missing = self.pairs.setdefault(recipe, {}), self.missing.setdefault(recipe, {})
            pixels = self.pixels.setdefault(recipe, set())
            for name, outcomes in answers.items():
                outcome = outcomes[str(recipe)]
                if outcome.value is not None and outcome.value.pixels is not None:
                    pixels.add(outcome.value.pixels)
                try:
                    task = task_of(self.config.request.task, classes_of(self.config, name))
                    pairs[name] = task.scored(outcome.unwrap(), Truth.of(self.item))
                except CounterposeError as error:
                    missing[name] = error.detail
                    if recipe == self.control and len(missing) == len(answers):
                        # Without the control, no other image of this photograph can be compared.
                        raise

    async def _spared(self, names: Sequence[str], images: list[str]) -> Mapping[str, Answers]:
        try:
            return await self._answers(names, images)
        except BackendError as error:
            # ImageAnswers alone, after another one has answered the control.
            if not (self.spare and self.pairs):
                raise
            problem = Problem.of(error)
            return {name: {image: Outcome(problem=problem) for image in images} for name in names}

    async def _answers(self, names: Sequence[str], images: list[str]) -> dict[str, Answers]:
        """Ask the classifiers that answer among the same classes together."""
        asked: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            asked.setdefault(tuple(classes_of(self.config, name)), []).append(name)
        found = await together(
            classify_images(self.calls, own, images, classes, spare=self.spare)
            for classes, own in asked.items()
        )
        return {name: answers for each in found for name, answers in each.items()}


def _only(digests: set[str]) -> str | None:
    """The digest of the image that classifiers made, if they say and made the same."""
    return next(iter(digests)) if len(digests) == 1 else None
