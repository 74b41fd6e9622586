"""Several right labels, of a class or of an image, from the dataset through a run to its gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.stress_tests import StressTestSummary
from fakes.gateway import FakeGateway, fake_gateway
from fakes.pages import text_of
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld

PER_CLASS = 24
NEXT = {name: CLASSES[(place + 1) % len(CLASSES)] for place, name in enumerate(CLASSES)}
"""What `leaning` takes each class for in the snow."""
TESTED: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "edit_types": ["background"], "max_edits_per_image": 2,
    "lance_r_edits_per_image": 0, "seed": 3,
}  # fmt: skip
ACCEPTABLE = {"name": "classification", "acceptable": {name: [other] for name, other in NEXT.items()}}

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Synonyms(FakeClassifiers):
    """`leaning` answers with the next class in the snow."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        shown = self.world.shown[image]
        misled = request.classifier == "leaning" and "snow" in shown.caption
        answer = NEXT[shown.label] if misled else shown.label
        rest = 0.1 / (len(request.classes) - 1)
        probabilities = [0.9 if name == answer else rest for name in request.classes]
        best = sorted(range(len(probabilities)), key=lambda place: -probabilities[place])[:5]
        return Prediction(probabilities=probabilities, top=best)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    folder: Path = tmp_path_factory.mktemp("labels")

    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=Synonyms(world))

    async with fake_gateway(folder, ports=ports) as opened:
        for classes in (CLASSES[:2], CLASSES[2:]):
            await opened.upload("plain", PER_CLASS, classes)
        await opened.http.post("/v1/datasets", json={"name": "labelled"})
        sources = [opened.source(label, number) for label in CLASSES for number in range(PER_CLASS)]
        further = [{**source, "labels": [NEXT[source["label"]]]} for source in sources]
        for start in range(0, len(further), 64):
            body = {"sources": further[start : start + 64]}
            answer = await opened.http.post("/v1/datasets/labelled/sources", json=body)
            assert answer.status_code == 200, answer.text
        yield opened


async def stress(gateway: FakeGateway, **changes: Any) -> StressTestSummary:
    return await gateway.stress_test({"dataset": "plain", **TESTED, **changes})


def broken(summary: StressTestSummary) -> set[str]:
    return {finding.classifier for finding in summary.findings if finding.state == "breaks"}


async def test_a_finding_that_only_the_single_label_makes_disappears(gateway: FakeGateway) -> None:
    plain = await stress(gateway)
    assert broken(plain) == {"leaning"}
    accepted = await stress(gateway, task=ACCEPTABLE)
    assert broken(accepted) == set()
    assert accepted.models["leaning"].counterfactual.rate.estimate == 1.0
    assert plain.models["leaning"].counterfactual.rate.estimate is not None
    assert plain.models["leaning"].counterfactual.rate.estimate < 0.9
    assert accepted.models["steady"].original.rate.estimate == 1.0
    assert accepted.task.score == "p(right classes)"


async def test_a_report_says_which_classes_are_right(gateway: FakeGateway) -> None:
    accepted = await stress(gateway, task=ACCEPTABLE)
    report = await gateway.http.get(f"/v1/runs/{accepted.run_id}/report")
    text = text_of(report.text)
    assert accepted.task.rule in text
    assert "--task" in text
    assert "change of p(true class)" not in report.text


async def test_labels_of_an_image_are_as_right_as_its_class(gateway: FakeGateway) -> None:
    labelled = await stress(gateway, dataset="labelled")
    assert broken(labelled) == set()
    assert labelled.models["leaning"].counterfactual.rate.estimate == 1.0
    count = len(CLASSES) * PER_CLASS
    assert f"{count} source images have further labels" in labelled.task.rule


async def test_a_gate_counts_the_same_answers_as_right(gateway: FakeGateway) -> None:
    arms: list[tuple[dict[str, Any], str]] = [
        ({}, "failed"),
        ({"task": ACCEPTABLE}, "passed"),
        ({"dataset": "labelled"}, "passed"),
    ]
    for changes, outcome in arms:
        run = await stress(gateway, **{"classifiers": ["steady"], "confirm": False, **changes})
        body = {"baseline": run.run_id, "classifiers": ["leaning"], "seed": 1}
        answer = await gateway.http.post("/v1/gates", json=body)
        assert answer.status_code == 202, answer.text
        await gateway.worker().work_off()
        summary = await gateway.http.get(f"/v1/runs/{answer.json()['id']}/summary")
        assert GateSummary.model_validate_json(summary.content).outcome == outcome, changes


async def test_the_labels_of_an_image_are_part_of_its_dataset(gateway: FakeGateway) -> None:
    plain, labelled = [await gateway.http.get(f"/v1/datasets/{name}") for name in ("plain", "labelled")]
    assert plain.json()["digest"] != labelled.json()["digest"]
    listed = gateway.ledger.datasets.sources("labelled")[0]
    assert listed.labels == [NEXT[listed.label]]
    assert "labels" not in gateway.ledger.datasets.sources("plain")[0].model_dump()


@pytest.mark.parametrize(
    ("labels", "says"),
    [(["sled", "sled"], "given twice"), (["plate"], "given twice"), ([" "], ""), (["a\x00b"], "")],
)
async def test_labels_that_cannot_be_are_refused(gateway: FakeGateway, labels: list[str], says: str) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "refused"})
    source = {**gateway.source("plate", 999), "labels": labels}
    answer = await gateway.http.post("/v1/datasets/refused/sources", json={"sources": [source]})
    assert answer.status_code == 422, answer.text
    assert "/sources/0/labels" in answer.text
    assert says in answer.text


async def test_a_label_that_no_class_has_is_refused_before_anything_runs(gateway: FakeGateway) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "strange"})
    sources = [{**gateway.source(label, 998), "labels": ["yurt"]} for label in CLASSES]
    await gateway.http.post("/v1/datasets/strange/sources", json={"sources": sources})
    answer = await gateway.http.post("/v1/stress-tests", json={"dataset": "strange", **TESTED})
    assert answer.status_code == 422
    assert "'yurt'" in answer.text


async def test_a_task_that_names_no_class_of_the_dataset_is_refused(gateway: FakeGateway) -> None:
    task = {"name": "classification", "acceptable": {"plate": ["plates"]}}
    answer = await gateway.http.post("/v1/stress-tests", json={"dataset": "plain", **TESTED, "task": task})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/task/acceptable"
