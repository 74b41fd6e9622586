"""Pairs that were made elsewhere through the API: joined with their sources, answered and reported."""

from __future__ import annotations

import base64
import html
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.transforms import given
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.store import image
from fakes.world import CAPTION, CLASSES, FakeWorld, Shown
from integration.gateway.test_operation_exports import files_of

BODY: dict[str, Any] = {
    "dataset": "demo",
    "classifiers": ["leaning"],
    "seed": 3,
    "transforms": {"pairs": "pairs"},
}
PER_CLASS = 6


class MisledByFog(FakeClassifiers):
    """Misses an image that shows fog of strength 2 or more; it makes no image, but reads recipes."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        shown = self.world.shown[Recipe.parsed(image).source if "/" in image else image]
        p_true = 0.1 if (shown.strength or 0.0) >= 2.0 else 0.9
        rest = (1.0 - p_true) / (len(request.classes) - 1)
        probabilities = [p_true if name == shown.label else rest for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


@pytest.fixture(params=["photographs", "miniature"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledByFog(world))

    async with fake_gateway(tmp_path, suite=load_suite(request.param), ports=ports) as made:
        await made.upload("demo", PER_CLASS)
        await made.http.post("/v1/datasets", json={"name": "pairs"})
        yield made


def row(
    gateway: FakeGateway, label: str, number: int, change: str | None, level: int = 1, **told: Any
) -> dict[str, Any]:
    """The upload of what was made of an image; fog is as strong as its level."""
    shown = Shown(label, CAPTION.format(label=label), float(level) if change == "in fog" else 0.0)
    names = (number, change, level)
    gateway.world.add(shown, *names)
    pair: dict[str, Any] = {"source": f"{label}-{number}.png", "change": change}
    if change is not None:
        pair["level"] = level
    return {
        "filename": f"{change}-{level}/{label}-{number}.png",
        "label": label,
        "content_base64": base64.b64encode(image(shown, *names)).decode(),
        "pair": pair,
    } | told


async def uploaded(gateway: FakeGateway, rows: list[dict[str, Any]]) -> None:
    for first in range(0, len(rows), 64):
        answer = await gateway.http.post(
            "/v1/datasets/pairs/sources", json={"sources": rows[first : first + 64]}
        )
        assert (answer.status_code, answer.json()["rejected"]) == (200, []), answer.text


def fog(gateway: FakeGateway, *levels: int, controls: bool = False) -> list[dict[str, Any]]:
    return [
        row(gateway, label, number, change, level)
        for label in CLASSES
        for number in range(PER_CLASS)
        for change, level in [*(("in fog", level) for level in levels), *([(None, 1)] if controls else [])]
    ]


async def summed_up(gateway: FakeGateway, **changes: Any) -> StressTestSummary:
    return await gateway.stress_test(BODY | changes)


async def test_given_pairs_with_controls_show_from_which_level_on_a_change_hurts(
    gateway: FakeGateway,
) -> None:
    await uploaded(gateway, fog(gateway, 1, 2, 4, controls=True))
    summary = await summed_up(gateway)
    told = summary.transforms
    assert told is not None
    assert told.given is not None
    assert (told.given.rows, told.given.used, told.given.controls, told.given.left_out) == (96, 96, True, [])
    (figure,) = told.figures
    assert (figure.operation, figure.state, figure.from_level, figure.images) == ("in fog", "breaks", 2, 24)
    assert [(level.level, level.lost, level.shown) for level in figure.levels] == [
        (1, 0, False), (2, 24, True), (4, 24, True),
    ]  # fmt: skip
    assert figure.sentence.startswith(
        "leaning loses 100 points of accuracy once the image has the given change 'in fog' at level 2"
    )
    assert told.making["leaning"].estimate == 0.0
    assert "Each is held against its control" in str(summary)


async def test_without_controls_a_loss_is_suspected_at_most_and_says_why(gateway: FakeGateway) -> None:
    await uploaded(gateway, fog(gateway, 2))
    summary = await summed_up(gateway)
    told = summary.transforms
    assert told is not None
    assert told.given is not None
    assert told.classes is not None
    assert [each.state for each in told.findings] == ["suspected"] * len(told.findings)
    assert summary.verdicts[0].state == "suspected"
    why = "The pairs have no control, so the way in which they were made may be what costs it."
    assert why in told.figures[0].sentence
    assert why in summary.verdict
    assert "They have no controls" in str(summary)
    assert told.making == {}


async def test_what_cannot_be_compared_is_left_out_by_name_and_count(gateway: FakeGateway) -> None:
    rows = fog(gateway, 2, controls=True)
    first = rows[0]
    same = row(gateway, "sled", 1, None) | {
        "filename": "same.png",
        "pair": {"source": "sled-1.png", "change": "snow"},
    }
    large = base64.b64encode(image("large", size=16)).decode()
    rows += [
        first | {"filename": "lone.png", "pair": None},
        first | {"filename": "strange.png", "pair": {"source": "nobody.png", "change": "in fog"}},
        row(gateway, "plate", 0, "in fog", 3) | {"filename": "again.png", "pair": first["pair"]},
        same,
        first | {"filename": "large.png", "content_base64": large, "label": "sled",
                 "pair": {"source": "sled-2.png", "change": "snow"}},
    ]  # fmt: skip
    await uploaded(gateway, rows)
    told = (await summed_up(gateway)).transforms
    assert told is not None
    assert told.given is not None
    assert {each.reason: each.names for each in told.given.left_out} == {
        given.NO_PAIR: ["lone.png"],
        given.NO_SOURCE: ["strange.png"],
        given.REPEATED: ["again.png"],
        given.SAME: ["same.png"],
        given.OTHER_SIZE: ["large.png"],
    }
    assert (told.given.rows, told.given.used) == (53, 48)
    assert [each.operation for each in told.figures] == ["in fog"]


async def test_what_an_editor_did_not_make_is_counted_by_its_reason(gateway: FakeGateway) -> None:
    rows = fog(gateway, 1, 2)
    for number, each in enumerate(rows):
        if each["pair"]["level"] == 2 and each["label"] == "sled":
            each["pair"]["not_made"] = "it took more than 60 s" if number % 4 == 1 else f"it raised {number}"
    await uploaded(gateway, rows)
    summary = await summed_up(gateway)
    assert summary.transforms is not None
    assert summary.transforms.given is not None
    out = {each.reason: each.number for each in summary.transforms.given.left_out}
    assert out.pop("no image was made: it took more than 60 s") == 3
    # At the other level nothing stands beside them.
    assert out.pop(given.INCOMPLETE) == 6
    assert set(out.values()) == {1}
    assert len(out) == 3
    assert "36 of 48 images of pairs" in str(summary)
    report = html.unescape((await gateway.http.get(f"/v1/runs/{summary.run_id}/report")).text)
    assert "Left out, 3: no image was made: it took more than 60 s (in fog-2/sled-" in report


async def test_reasons_without_end_are_told_together(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "MOST_REASONS", 2)
    rows = fog(gateway, 1)
    for number, each in enumerate(rows[:5]):
        each["pair"]["not_made"] = f"it raised {number}"
    await uploaded(gateway, rows)
    told = (await summed_up(gateway)).transforms
    assert told is not None
    assert told.given is not None
    assert sorted(each.number for each in told.given.left_out) == [1, 1, 3]
    assert given.NOT_MADE in [each.reason for each in told.given.left_out]


async def test_a_source_without_the_control_or_a_level_that_others_have_is_left_out(
    gateway: FakeGateway,
) -> None:
    rows = fog(gateway, 1, 2, controls=True)
    # Of the first source the control, of the second a level.
    await uploaded(gateway, [*rows[:2], *rows[4:]])
    told = (await summed_up(gateway, limit=12)).transforms
    assert told is not None
    assert told.given is not None
    out = {each.reason: each.number for each in told.given.left_out}
    assert out == {given.NO_CONTROL: 2, given.INCOMPLETE: 1, given.NO_CHANGE: 1, given.LIMITED: 3 * 10}
    assert told.images == 12


async def test_levels_that_count_from_the_strongest_are_doubted(gateway: FakeGateway) -> None:
    rows = fog(gateway, 1, 3)
    for each in rows:
        each["pair"]["level"] = 4 - each["pair"]["level"]
    await uploaded(gateway, rows)
    told = (await summed_up(gateway)).transforms
    assert told is not None
    assert told.figures[0].sentence.endswith(
        "levels count from the slightest, so number them anew if these do not."
    )


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"transforms": {"pairs": "pairs", "levels": [1]}}, 422, "pairs are tested alone; leave levels out"),
        ({"transforms": {"pairs": "pairs", "masks": "own"}}, 422, "pairs are tested alone; leave masks out"),
        (
            {"transforms": {"pairs": "pairs", "severity_loss": 0.2}},
            422,
            "only severity tells where a loss is",
        ),
        ({"transforms": {"pairs": "pairs", "severity": "adaptive"}}, 422, "ask for the severity 'grid'"),
        ({"transforms": {"pairs": "peers"}}, 404, "peers"),
        ({"confirm": False}, 422, "given pairs are tested alone; leave it out"),
        ({}, 422, "no pair of dataset 'pairs' can be tested: 1: it is of no pair (in fog-2/plate-0.png)"),
    ],
)
async def test_a_request_that_fits_no_pairs_is_refused_by_name(
    gateway: FakeGateway, changes: dict[str, Any], status: int, detail: str
) -> None:
    await uploaded(gateway, [row(gateway, "plate", 0, "in fog", 2, pair=None)])
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    assert answer.status_code == status, answer.text
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize(
    "pair",
    [
        {"source": "plate-0.png", "change": "in fog", "level": "strong"},
        {"source": "plate-0.png", "change": "in fog", "level": 0},
        {"source": "plate-0.png", "change": ""},
        {"source": "plate-0.png", "change": "identity"},
        {"source": "plate-0.png", "change": "in fog", "not_made": "<script>"},
        {"change": "in fog"},
    ],
)
async def test_a_pair_of_another_form_is_refused(gateway: FakeGateway, pair: dict[str, Any]) -> None:
    sources = [row(gateway, "plate", 0, "in fog", 2, pair=pair)]
    answer = await gateway.http.post("/v1/datasets/pairs/sources", json={"sources": sources})
    assert answer.status_code == 422
    assert "/sources/0/pair" in answer.text


async def test_report_pages_and_exports_say_that_the_pairs_were_given(gateway: FakeGateway) -> None:
    await uploaded(gateway, fog(gateway, 1, 2))
    run = (await summed_up(gateway)).run_id
    report = html.unescape((await gateway.http.get(f"/v1/runs/{run}/report")).text)
    assert "The pairs were given, not made here: 48 of 48 images of pairs (table " in report
    assert "How they were chosen is not known here." in report
    assert "<h2>What is suspected to hurt</h2>" in report
    assert "No generator is involved" not in report
    assert "counterpose prove" not in report
    assert "counterpose apply" not in report
    assert "--pairs pairs --size 512 --seed 3" in report
    page = await gateway.http.get(f"/ui/runs/{run}/findings/1")
    assert page.status_code == 200, page.text
    assert "Prove it on" not in page.text
    assert "counterpose apply" not in page.text
    refused = await gateway.http.post(f"/v1/runs/{run}/findings/1/prove", json={})
    assert (refused.status_code, "add pairs to their table" in refused.text) == (422, True)
    rows = [
        json.loads(line)
        for line in (await files_of(gateway, run, "imagefolder"))["metadata.jsonl"].decode().splitlines()
    ]
    assert Counter((row["shift"], row["origin"]) for row in rows) == dict.fromkeys(
        [("base", "photograph"), ("in fog 1", "photograph"), ("in fog 2", "photograph")], 24
    )


async def test_given_levels_have_curves_of_severity(gateway: FakeGateway) -> None:
    await uploaded(gateway, fog(gateway, 1, 2, 4, controls=True))
    told = (await summed_up(gateway, transforms={"pairs": "pairs", "severity": "grid"})).transforms
    assert told is not None
    assert told.severity is not None
    (figure,) = told.severity.figures
    assert [(each.level, each.accuracy.estimate) for each in figure.levels] == [(1, 1.0), (2, 0.0), (4, 0.0)]
    # Interpolated from level 1 on, which loses nothing.
    assert figure.loss_level.level == pytest.approx(1.1)


async def test_a_gate_classifies_given_pairs_again(gateway: FakeGateway) -> None:
    await uploaded(gateway, fog(gateway, 1, 2, controls=True))
    run = (await summed_up(gateway)).run_id
    frozen = (await gateway.http.post("/v1/gates/freeze", json={"baseline": run})).json()
    body = {"baseline": run, "digest": frozen["digest"], "classifiers": ["steady"], "seed": 1}
    answer = await gateway.http.post("/v1/gates", json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    summary = (await gateway.http.get(f"/v1/runs/{answer.json()['id']}/summary")).json()
    assert "in fog 2" in json.dumps(summary)
