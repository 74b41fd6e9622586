"""Input from which a stress test can learn little or nothing: what is refused, and what is said of it."""

from __future__ import annotations

import pytest

from counterpose_core.contract.perturber import Perturbations, PerturbItem
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.contract.severity import SeverityPlan
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.errors import ClassMapMismatch
from counterpose_gateway.methods.stress_test.notes import images_needed, severity_notes
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.records.source_table import SourceTable
from fakes.confirmed_runs import staged_run
from fakes.ports import FakePerturber, FakeScorer, fake_services
from fakes.runs import planned, stress_test_request
from fakes.world import FakeWorld, fake_dataset, fake_suite


async def test_too_few_images_for_any_test_are_told_when_the_run_is_planned() -> None:
    world = FakeWorld()
    config, _ = await planned(world.sources(1, ("plate", "kite")), fake_services(world))
    assert config.notes == [
        "no test can show anything on 2 images: the easiest takes 3 whose edits and placebos are all kept",
        "no finding can be confirmed: the largest class has 1 image, and a test on images that the screen "
        "does not use needs 16 of a class, as the suite has no editor settings that draw an image again",
    ]


async def test_frames_of_one_video_are_too_few_however_many_they_are() -> None:
    world = FakeWorld()
    frames = [one.model_copy(update={"group": "video"}) for one in world.sources(30, ("plate",))]
    config, _ = await planned(frames, fake_services(world), confirm=False)
    assert config.notes == [
        "no test can show anything on 1 group of images: the easiest takes 3 whose edits and placebos are "
        "all kept"
    ]


def test_an_adaptive_search_on_few_images_says_that_it_saves_little() -> None:
    severity = SeverityPlan(plan="adaptive", loss=0.1, full_share=0.19)
    plan = TransformPlan(operations={"rotation": [1, 2, 3, 4, 5]}, size=512, severity=severity)
    assert severity_notes(plan, 54) == [
        "severity 'adaptive' asks every level of 19% of 54 images and saves little below 96; 'grid' tells "
        "the same more narrowly, and can be frozen"
    ]
    assert severity_notes(plan, 96) == []
    grid = plan.model_copy(update={"severity": severity.model_copy(update={"plan": "grid"})})
    assert severity_notes(grid, 54) == []


async def test_enough_images_need_no_note() -> None:
    world = FakeWorld()
    config, _ = await planned(world.sources(20), fake_services(world))
    assert config.notes == []


@pytest.mark.parametrize(
    ("edits", "classifiers", "needed"), [(5, 1, 3), (5, 2, 3), (1, 1, 6), (1, 2, 7), (50, 1, 1)]
)
def test_the_least_images_follow_from_the_request(edits: int, classifiers: int, needed: int) -> None:
    names = ["steady", "leaning"][:classifiers]
    assert images_needed(stress_test_request(max_edits_per_image=edits, classifiers=names)) == needed


async def test_a_dataset_of_one_class_is_refused() -> None:
    world = FakeWorld()
    with pytest.raises(
        ClassMapMismatch, match=r"has one class, 'plate', so every answer would be right"
    ) as no:
        await prepare_stress_test(
            stress_test_request(),
            dataset=fake_dataset(3, ("plate",)),
            sources=SourceTable.of(world.sources(3, ("plate",))),
            suite=fake_suite(),
            services=fake_services(world),
        )
    assert no.value.pointer == "/dataset"


class NoPlacebo(FakePerturber):
    """Has no rewording to propose."""

    def propose(self, item: PerturbItem) -> Perturbations:
        return Perturbations(edits=[]) if item.perturbation_type == "placebo" else super().propose(item)


async def test_without_a_placebo_the_verdict_says_so() -> None:
    run = await staged_run(
        lambda world: fake_services(world, perturber=NoPlacebo()), per_class=6, confirm=False
    )
    await run.work_off()
    said = run.summary().verdict
    assert "No change of words could be tested: no placebo was kept to compare edits with." in said


class NothingPasses(FakeScorer):
    """Finds every edit too far from its original."""

    def measure(self, item: ScoreItem) -> EditScores:
        return super().measure(item).model_copy(update={"image_image": 0.1})


async def test_where_every_edit_is_filtered_the_verdict_names_the_reasons() -> None:
    run = await staged_run(
        lambda world: fake_services(world, scorer=NothingPasses(world)), per_class=2, confirm=False
    )
    await run.work_off()
    summary = run.summary()
    assert summary.verdicts == []
    number = max(summary.dropped.values())
    said = "the edited image strays from the original"
    assert f"survived with its control ({number}: {said}" in summary.verdict
    assert "gate-" not in summary.verdict
    assert summary.verdict.endswith("so this run says nothing about these classifiers.")
