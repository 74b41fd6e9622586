"""Findings of single classes: only of those with enough images, corrected over all that are tested."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose_core.contract.proofs import OperationProof
from counterpose_core.contract.recipes import IDENTITY, Recipe
from counterpose_core.contract.runs import TransformedImage
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.transforms import ClassTests
from counterpose_core.tasks.classification import ranked
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.class_findings import class_tests
from counterpose_gateway.methods.stress_test.transforms.operation_answers import OperationAnswers
from counterpose_gateway.methods.stress_test.transforms.proof_summary import JoinedOperation, OperationPairs
from fakes.recorder import recorded_run
from fakes.results import fake_config

LEVELS = {"darker": (1, 3, 5), "rotation": (1, 3, 5), "upside-down": (1,)}


def said(right: bool) -> Scored:
    return ranked(0.9 if right else 0.1, 1 if right else 2, [("koala", 0.9)])


def answers(
    classes: Mapping[str, int], lost: Mapping[tuple[str, str, int], int], frames: int = 1
) -> OperationAnswers:
    """So many images of each class, and how many an operation at a level loses; ``frames`` make a group."""
    found = OperationAnswers("net", LEVELS)
    for label, number in classes.items():
        for at in range(number):
            image = f"{label}-{at}"
            made = [
                TransformedImage(
                    operation=IDENTITY, level=0, recipe=str(Recipe("0" * 64)), predictions={"net": said(True)}
                )
            ]
            for name, levels in LEVELS.items():
                made += [
                    TransformedImage(
                        operation=name, level=level, recipe=str(Recipe("0" * 64, name, level)),
                        predictions={"net": said(at >= lost.get((label, name, level), 0))},
                    )
                    for level in levels
                ]  # fmt: skip
            found.labels[image] = label
            found.add(image, f"{label}-{at // frames}", made)
    return found


def test_a_class_loses_at_a_level_of_a_scaled_corruption_that_says_so() -> None:
    part = OperationAnswers("net", {"gaussian-blur": (1,)}, scaled=True)
    for at in range(14):
        recipes = (Recipe("0" * 64), Recipe("0" * 64, "gaussian-blur", 1))
        made = [
            TransformedImage(
                operation=each.operation, level=each.level, recipe=str(each),
                predictions={"net": said(each.operation == IDENTITY)},
            )
            for each in recipes
        ]  # fmt: skip
        part.labels[str(at)] = "koala"
        part.add(str(at), str(at), made)
    (finding,) = class_tests({"net": part}, LanceEstimator(3)).findings
    assert "once the image is as blurred as level 1 (scaled), 0 the other way" in finding.sentence


def outcome(*args: object, **kwargs: object) -> ClassTests:
    return class_tests({"net": answers(*args, **kwargs)}, LanceEstimator(3))  # type: ignore[arg-type]


def test_a_class_is_named_from_the_easiest_level_on_at_which_its_loss_is_shown() -> None:
    lost = {("koala", "darker", 3): 12, ("koala", "darker", 5): 14, ("koala", "darker", 1): 2}
    found = outcome({"koala": 14, "sled": 14}, lost)
    (finding,) = found.findings
    assert (finding.object_class, finding.operation, finding.level) == ("koala", "darker", 3)
    assert (finding.lost, finding.images, finding.gained) == (12, 14, 0)
    assert finding.sentence.startswith(
        "net loses 12 of 14 of the class 'koala' once the image is as dark as level 3"
    )
    assert (found.tested, found.classes, found.too_small, found.least) == (6, 2, 0, 8)
    assert (
        found.sentence
        == "2 of 2 classes have 8 independent images or more: 1 loss of a class is shown (finding 1)."
    )


def test_of_classes_without_enough_images_nothing_is_said_and_they_are_counted() -> None:
    lost = {("koala", "darker", level): 3 for level in (1, 3, 5)}
    found = outcome({"koala": 3, "sled": 2, "lamp": 1}, lost)
    assert (found.findings, found.tested, found.classes, found.too_small) == ([], 0, 0, 3)
    assert found.sentence == (
        "No class has 7 independent images, so nothing can be said of a class; the largest has 3."
    )


def test_a_large_class_is_tested_beside_those_that_are_too_small() -> None:
    found = outcome({"koala": 9, "sled": 2}, {("koala", "upside-down", 1): 9, ("sled", "upside-down", 1): 2})
    assert [(each.object_class, each.operation) for each in found.findings] == [("koala", "upside-down")]
    assert found.sentence.endswith(
        "1 loss of a class is shown (finding 1); of 1 with fewer nothing can be said."
    )


def test_frames_of_one_photograph_count_once() -> None:
    found = outcome({"koala": 14}, {("koala", "upside-down", 1): 14}, frames=7)
    assert (found.findings, found.too_small) == ([], 1)
    assert found.sentence.endswith("the largest has 2.")


def test_findings_of_classes_are_numbered_behind_those_of_all_classes() -> None:
    lost = {("koala", "upside-down", 1): 14, ("sled", "upside-down", 1): 12}
    found = class_tests({"net": answers({"koala": 14, "sled": 14}, lost)}, LanceEstimator(3), after=3)
    assert [(each.number, each.object_class) for each in found.findings] == [(4, "koala"), (5, "sled")]
    assert str(found.findings[1]).startswith("5 breaks       net loses 12 of 14 of the class 'sled'")
    assert found.sentence.endswith("2 losses of a class are shown (findings 4 to 5).")


def joined(label: str, losses: list[float]) -> JoinedOperation:
    """Rotation of one class, or of all, over two runs."""
    proof = OperationProof(
        parent="0" * 32, number=4, classifier="net", operation="rotation", level=3, object_class=label,
        images=20, family=120,
    )  # fmt: skip
    run = recorded_run(fake_config(), [])
    runs = [OperationPairs(run, len(losses), losses=[]) for _ in range(2)]
    runs[0].losses, runs[1].losses = losses[:12], losses[12:]
    return JoinedOperation(proof, runs)


def test_a_shown_loss_of_a_class_stays_shown_until_fresh_images_leave_too_little_of_it() -> None:
    few = [1.0] * 4 + [0.0] * 20
    assert joined("koala", few).state == "breaks"
    assert joined("", few).state == "cannot-tell"
    assert "on the class 'koala' once the image" in joined("koala", few).sentence
    assert "on the class" not in joined("", few).sentence
    gone = [1.0] * 12 + [0.0] * 400
    assert joined("koala", gone).state == "holds"
    assert "net holds on the class 'koala' where the image" in joined("koala", gone).sentence
    assert "a loss above" in joined("koala", gone).sentence
