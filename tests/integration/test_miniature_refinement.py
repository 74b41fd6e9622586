"""Refinement of a real winner: the trained generator and a classifier with a planted bug decide."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntItem, HuntShares
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.bug_hunt.phases import next_stage
from counterpose_gateway.methods.bug_hunt.summary import summarize
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.editor.engine import EditorEngine
from fakes.hunted_items import hunt_config, hunt_run, sample

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
SUITE = load_suite("miniature")
LEANING, LABEL = "leaning-convnext", "kite"
"""Its kites lean on being photographs: sketches are taken for plates."""
IMAGES = 16
FOUND = HuntInstruction(
    phase="hypothesis", prompt="a sketch of a yellow kite", hypothesis=1, source="caption",
    words="sketch yellow", classifiers=["model"],
)  # fmt: skip


class Drawn:
    """Draws the images of a plan and shows them to the classifier."""

    def __init__(self, folder: Path) -> None:
        store = BlobStore(str(folder))
        options = ClassifierOptions(models_folder=folder)
        self._editor = EditorEngine.load(SUITE.editor, WEIGHTS, store)
        self._classifiers = ClassifiersEngine.load(SUITE.classifiers, WEIGHTS, store, options)
        listed = self._classifiers.list_classifiers().classifiers
        self._classes = next(each.classes or [] for each in listed if each.name == LEANING)
        self._numbers = itertools.count(2_000)

    def next(self, config: BugHuntConfig, items: list[HuntItem], stage: int) -> list[HuntItem]:
        """The items of the stage that follows, as they are recorded."""
        plan = next_stage(hunt_run(config, stage), items)
        assert plan is not None
        told = [HuntInstruction.model_validate(each.instruction) for each in plan.items]
        made: list[HuntItem] = []
        for start in range(0, len(told), IMAGES):
            made += self._shown(told[start : start + IMAGES], stage + 1)
        return made

    def _shown(self, told: list[HuntInstruction], stage: int) -> list[HuntItem]:
        preset = SUITE.editor.hunt_generation or SUITE.editor.generation
        asked = [GenerateItem(prompt=each.prompt or "", seed=seed) for seed, each in enumerate(told)]
        images = [each.unwrap().image for each in self._editor.generate(preset.request(asked)).outcomes]
        answers = self._classifiers.classify(
            ClassifyRequest(classifier=LEANING, images=images, classes=self._classes)
        )
        said = [self._classes[each.unwrap().top[0]] for each in answers.outcomes]
        return [
            sample(next(self._numbers), answer, told=each, image=image, stage=stage, label=LABEL)
            for each, answer, image in zip(told, said, images, strict=True)
        ]


@pytest.mark.paper("BUGS-S3-adjectives")
def test_a_colour_that_a_real_winner_does_not_need_is_dropped(tmp_path: Path) -> None:
    shares = HuntShares(baseline=100, hypotheses=32, held_out=IMAGES, refinement=4 * IMAGES)
    config = hunt_config(shares=shares, label=LABEL)
    request = config.request.model_copy(update={"refine": IMAGES, "held_out": IMAGES})
    config = config.model_copy(update={"request": request})
    drawn = Drawn(tmp_path)
    baseline = [sample(n, "plate" if n < 4 else LABEL, label=LABEL) for n in range(100)]
    items = [*baseline, *(sample(1_000 + n, "plate", told=FOUND, stage=3, label=LABEL) for n in range(32))]
    refinement = drawn.next(config, items, 4)
    assert {each.instruction.prompt for each in refinement if each.instruction} == {
        FOUND.prompt,
        "a sketch of a kite",
    }
    items += refinement
    held_out = drawn.next(config, items, 5)
    # What is left is measured, beside the label alone.
    assert {each.instruction.prompt for each in held_out if each.instruction} == {
        "a photo of a kite",
        "a sketch of a kite",
    }
    (bug,) = summarize(hunt_run(config, 6), [*items, *held_out]).bugs
    assert (bug.state, bug.description, bug.found_as) == ("breaks", "a sketch of a kite", FOUND.prompt)
    assert [(form.left_out, form.need) for form in bug.refinement] == [("yellow", "not-needed")]
    assert bug.taken_for == "plate"
