"""Proofs through ledger and API: child runs of one finding, what they join, and what refuses them."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from counterpose_core.contract.editor import EditRequest, EditResponse
from counterpose_core.contract.findings import Finding
from counterpose_core.errors import InternalError
from counterpose_core.stress_test.confirmation import MOST_DRAWS
from counterpose_gateway.methods.stress_test.columns import read_columns
from counterpose_gateway.methods.stress_test.confirm.images_left import pairs_left
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ports import FakeEditor, fake_services
from fakes.proofs import BODY, CLASSES, PER_CLASS, filled, items, prove, proven, read
from fakes.world import fake_suite

SOME_EVIDENCE, ENOUGH = 5, 12
"""Images that do not prove what the fakes do, and more than those that do."""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as opened:
        yield opened


async def test_a_child_makes_pairs_of_images_that_are_left_and_the_run_stays_as_it_is(
    gateway: FakeGateway,
) -> None:
    run_id = await filled(gateway)
    before = [await read(gateway, run_id, path) for path in ("", "/items?limit=1000", "/summary")]
    child = await proven(gateway, run_id, images=SOME_EVIDENCE)

    run = await read(gateway, child)
    assert (run["kind"], run["parent"], run["state"], run["stage"]) == (
        "stress-test", run_id, "completed", 2,
    )  # fmt: skip
    made = await items(gateway, child)
    kinds = Counter(item["kind"] for item in made)
    assert (kinds["confirmation"], kinds["placebo"]) == (SOME_EVIDENCE, SOME_EVIDENCE)
    paired = {item["item_group"] for item in made if item["kind"] != "caption"}
    assert paired & {item["item_group"] for item in before[1]["items"]} == set()
    assert violated(gateway.ledger, child) == []
    assert [await read(gateway, run_id, path) for path in ("", "/items?limit=1000", "/summary")] == before


async def test_evidence_grows_over_children_until_the_finding_is_proven(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    told = await read(gateway, run_id, "/findings/1")
    assert (told["finding"]["state"], told["e_value"], told["pairs"]) == ("suspected", 1.0, [])
    assert told["finding"] == told["told"]
    assert told["images_needed"] is None
    assert told["outlook"].startswith("15 more images would decide it in fewer than half of the simulated")

    first = await proven(gateway, run_id, images=SOME_EVIDENCE)
    joined = await read(gateway, run_id, "/findings/1")
    assert (joined["finding"]["state"], joined["told"]["state"]) == ("cannot-tell", "suspected")
    assert 1.0 < joined["e_value"] < joined["e_value_needed"]
    assert 0 < joined["images_needed"] <= joined["images_left"] == told["images_left"] - SOME_EVIDENCE
    report = await read(gateway, first, "/summary")

    second = await proven(gateway, run_id, images=ENOUGH - SOME_EVIDENCE)
    joined = await read(gateway, run_id, "/findings/1")
    assert (joined["finding"]["state"], joined["images_needed"]) == ("breaks", 0)
    assert [each["run_id"] for each in joined["runs"]] == [run_id, first, second]
    assert [each["pairs"] for each in joined["runs"]] == [0, SOME_EVIDENCE, ENOUGH - SOME_EVIDENCE]
    values = [each["e_value"] for each in joined["runs"]]
    assert joined["e_value"] == pytest.approx(values[0] * values[1] * values[2])
    assert values[0] == 1.0, "the screen chose the finding, so it is no evidence"
    assert len({pair["source"] for pair in joined["pairs"]}) == len(joined["pairs"]) == ENOUGH
    assert await read(gateway, first, "/summary") == report, "a child tells the same whatever follows it"


async def test_the_verdict_of_a_child_is_the_joined_finding(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    await proven(gateway, run_id, images=SOME_EVIDENCE)
    child = await proven(gateway, run_id, images=ENOUGH - SOME_EVIDENCE)
    summary = await read(gateway, child, "/summary")
    (finding,), (verdict,) = summary["findings"], summary["verdicts"]
    assert (finding["state"], finding["of"], verdict["state"]) == ("breaks", ENOUGH, "breaks")
    assert finding["confirmed"]["p_adjusted"] <= 0.05
    assert verdict["sentence"] in summary["verdict"]
    assert f"finding 1 of run {run_id[:8]}" in summary["verdict"]
    report = await gateway.http.get(f"/v1/runs/{child}/report")
    assert f"counterpose prove {run_id[:8]} --finding 1 --images 7" in report.text
    assert "for all 4 findings together" in report.text
    assert 'id="trust"' not in report.text, "a child has no screen whose controls could be judged"
    assert 'id="trust"' in (await gateway.http.get(f"/v1/runs/{run_id}/report")).text
    assert (await gateway.http.get(f"/v1/runs/{child}/export")).status_code == 200


async def test_a_child_says_that_the_dataset_had_too_few_images_left(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    enough = await proven(gateway, run_id, images=SOME_EVIDENCE)
    assert "left to make the change in" not in (await read(gateway, enough, "/summary"))["verdict"]
    left = PER_CLASS - BODY["limit"] // len(CLASSES) - SOME_EVIDENCE
    child = await proven(gateway, run_id, images=left + 1)
    told = (await read(gateway, child, "/summary"))["verdict"]
    assert f"Dataset 'demo' had {left} images left to make the change in, not {left + 1}; add images" in told


async def test_where_no_image_is_left_no_proof_is_offered_until_there_are_more(gateway: FakeGateway) -> None:
    run_id = await filled(gateway, per_class=5)
    label, offer = (
        await class_of(gateway, run_id, 1),
        f"counterpose prove {run_id[:8]} --finding 1 --images 20",
    )
    why = (
        f"No image of '{label}' is left in dataset 'demo' to prove it on: upload more images of that class, "
        "or name another dataset (--dataset)."
    )
    told = await read(gateway, run_id, "/findings/1")
    assert (told["images_left"], told["redraws_left"], told["images_needed"]) == (0, 0, None)
    assert told["outlook"] == why
    summary = await read(gateway, run_id, "/summary")
    assert set(summary["pairs_left"].values()) == {0}
    report = (await gateway.http.get(f"/v1/runs/{run_id}/report")).text
    assert f"{offer} --dataset FOLDER" in report
    assert offer not in report.replace(f"{offer} --dataset FOLDER", "")
    page = html.unescape((await gateway.http.get(f"/ui/runs/{run_id}/findings/1")).text)
    assert 'class="prove"' not in page
    assert why in page
    assert f"{offer} --dataset FOLDER" in page
    assert (await prove(gateway, run_id)).json()["code"] == "dataset-empty"

    await gateway.upload("demo", 9, (label,))
    told = await read(gateway, run_id, "/findings/1")
    least = told["least_images"]
    assert told["images_left"] == 4 < least
    assert told["outlook"] == (
        f"Dataset 'demo' has 4 images of '{label}' left to prove it on, and it takes at least {least}: "
        "upload more images of that class, or name another dataset (--dataset)."
    )
    summary = await read(gateway, run_id, "/summary")
    assert (summary["pairs_left"]["1"], summary["least_pairs"]["1"]) == (4, least)
    report = html.unescape((await gateway.http.get(f"/v1/runs/{run_id}/report")).text)
    assert f"Too few images of '{label}' are left (4, and a proof takes {least})" in report
    assert 'class="prove"' not in (await gateway.http.get(f"/ui/runs/{run_id}/findings/1")).text

    await gateway.upload("demo", 5 + least, (label,))
    told = await read(gateway, run_id, "/findings/1")
    assert told["images_left"] == least
    assert "decides it in 0 % of these futures" in told["outlook"]
    summary = await read(gateway, run_id, "/summary")
    assert summary["pairs_left"]["1"] == least
    assert summary["hopeless"] == [3], "a small loss is proven by so few images in no future"
    report = html.unescape((await gateway.http.get(f"/v1/runs/{run_id}/report")).text)
    assert f"The images left of '{label}' would not decide it; add some, then" in report
    assert 'class="prove"' not in (await gateway.http.get(f"/ui/runs/{run_id}/findings/1")).text

    # With so few images the fakes' loss, which is not whole, proves nothing.
    child = await proven(gateway, run_id, images=least)
    summary = await read(gateway, child, "/summary")
    assert (summary["findings"][0]["state"], summary["pairs_left"]) == ("cannot-tell", {"1": 0})
    assert why in summary["verdict"]
    assert "more image" not in summary["verdict"].replace(why, "")

    await gateway.upload("demo", 25 + least, (label,))
    assert offer in (await gateway.http.get(f"/v1/runs/{run_id}/report")).text
    assert 'class="prove"' in (await gateway.http.get(f"/ui/runs/{run_id}/findings/1")).text


async def test_images_left_are_those_that_a_proof_takes(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    left = PER_CLASS - BODY["limit"] // len(CLASSES)
    for number in (1, 2, 3, 4):
        assert (await read(gateway, run_id, f"/findings/{number}"))["images_left"] == left
        assert (await read(gateway, run_id, "/summary"))["pairs_left"][str(number)] == left
    told = await read(gateway, run_id, "/findings/1")
    assert (told["images_needed"] or 0) <= left
    child = await proven(gateway, run_id, images=100)
    kinds = Counter(item["kind"] for item in await items(gateway, child))
    assert kinds["confirmation"] == left


async def test_a_child_can_be_asked_to_go_on_like_its_run(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    first = await proven(gateway, run_id, images=SOME_EVIDENCE)
    second = await proven(gateway, first, images=SOME_EVIDENCE)
    assert (await read(gateway, second))["parent"] == run_id
    assert await read(gateway, first, "/findings/1") == await read(gateway, run_id, "/findings/1")
    answer = await prove(gateway, first, 2)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_the_pairs_of_the_run_s_own_confirmation_count_and_new_images_are_found(
    gateway: FakeGateway,
) -> None:
    run_id = await filled(gateway, limit=None, confirm=True, confirm_share=0.5)
    told = await read(gateway, run_id, "/findings/1")
    assert (told["told"]["state"], told["told"]["confirmed"]["n_pairs"]) == ("breaks", 10)
    assert (told["runs"][0]["pairs"], told["family"]) == (10, 2)
    assert told["runs"][0]["e_value"] > 1.0
    await gateway.upload("demo", PER_CLASS + 4, (told["told"]["object_class"],))
    child = await proven(gateway, run_id, images=6)
    joined = await read(gateway, run_id, "/findings/1")
    assert [each["pairs"] for each in joined["runs"]] == [10, 4]
    assert {pair["run_id"] for pair in joined["pairs"]} == {run_id, child}
    assert joined["e_value"] == pytest.approx(told["e_value"] * joined["runs"][1]["e_value"])
    assert (joined["finding"]["state"], joined["finding"]["of"]) == ("breaks", 14)
    assert joined["told"] == told["told"]


async def test_known_captions_are_not_written_again(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    first = await items(gateway, await proven(gateway, run_id, images=SOME_EVIDENCE))
    spare = {item["item_group"] for item in first} - {
        item["item_group"] for item in first if item["kind"] != "caption"
    }
    assert spare
    wrote = gateway.services.captioner.calls["caption"]  # type: ignore[attr-defined]
    second = await items(gateway, await proven(gateway, run_id, images=len(spare)))
    assert {item["item_group"] for item in second} == spare
    assert gateway.services.captioner.calls["caption"] == wrote  # type: ignore[attr-defined]


async def test_a_repeated_key_is_one_child_and_another_request_is_refused(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    path, key = f"/v1/runs/{run_id}/findings/1/prove", {"idempotency-key": "once"}
    answers = [await gateway.http.post(path, json={"images": 4}, headers=key) for _ in "12"]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert answers[0].headers["location"] == f"/v1/runs/{answers[0].json()['id']}"
    other = [
        await gateway.http.post(path, json={"images": 5}, headers=key),
        await gateway.http.post(path.replace("/1/", "/2/"), json={"images": 4}, headers=key),
    ]
    assert [answer.json()["code"] for answer in other] == ["idempotency-conflict"] * 2


async def test_what_cannot_be_proven_is_said_before_it_starts(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    await gateway.upload("boats", 3, ("boat",))
    number = 1 if await class_of(gateway, run_id, 1) == "sled" else 2
    assert await class_of(gateway, run_id, number) == "sled"
    refused = {
        "no finding": await prove(gateway, run_id, 9),
        "no run": await prove(gateway, "f" * 32, 1),
        "no class": await prove(gateway, run_id, number, dataset="boats"),
        "no dataset": await prove(gateway, run_id, number, dataset="trams"),
        "too many": await prove(gateway, run_id, number, images=101),
    }
    assert {name: (answer.status_code, answer.json()["code"]) for name, answer in refused.items()} == {
        "no finding": (404, "not-found"), "no run": (404, "not-found"),
        "no class": (422, "class-map-mismatch"), "no dataset": (404, "unknown-dataset"),
        "too many": (422, "invalid-request"),
    }  # fmt: skip
    assert "it has" in refused["no finding"].json()["detail"]
    assert "'boats' has no class 'sled'" in refused["no class"].json()["detail"]


async def class_of(gateway: FakeGateway, run_id: str, number: int) -> str:
    """The class that a finding is about."""
    return str((await read(gateway, run_id, f"/findings/{number}"))["told"]["object_class"])


async def test_images_of_another_dataset_count_as_well_but_no_image_twice(gateway: FakeGateway) -> None:
    run_id = await filled(gateway, per_class=5)
    label = await class_of(gateway, run_id, 1)
    await gateway.upload("same", 5, (label,))
    answer = await prove(gateway, run_id, dataset="same", images=3)
    assert (answer.status_code, answer.json()["code"]) == (422, "dataset-empty")

    await gateway.upload("more", 9, (label,))
    child = await proven(gateway, run_id, dataset="more", images=20)
    run = await read(gateway, child)
    assert run["dataset"] == "more"
    assert Counter(item["kind"] for item in await items(gateway, child))["confirmation"] == 4


async def test_a_run_that_goes_on_cannot_be_continued(gateway: FakeGateway) -> None:
    await gateway.upload("demo", PER_CLASS, CLASSES)
    run_id = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
    assert (await prove(gateway, run_id)).json()["code"] == "run-not-ended"
    await gateway.worker().work_off()
    child = (await prove(gateway, run_id, images=2)).json()["id"]
    again = await prove(gateway, run_id, images=2)
    assert (again.status_code, again.json()["code"]) == (409, "run-not-ended")
    assert child in again.json()["detail"]
    assert (await prove(gateway, run_id, 2, images=2)).status_code == 202, "another finding may be proven"


async def test_two_children_at_once_count_each_image_once(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    first = await proven(gateway, run_id, images=4, seed=1)
    twin = await read(gateway, first)
    ledger = gateway.ledger
    second = ledger.runs.create(
        kind="stress-test", dataset="demo", config=twin["resolved_config"], items=[], fingerprint="f" * 64,
        parent=run_id,
    ).id  # fmt: skip
    with ledger._session.database.writing() as connection:
        copied = (
            "INSERT INTO items SELECT :new || substr(id, 33), :new, item_key, ordinal, kind, item_group, "
            "source_image, label, edit_type, slot, stage, caption, instruction, state, attempts, fence, "
            "worker, due_at, reason, code, detail, result FROM items WHERE run_id = :old"
        )
        columns = (
            "id, run_id, item_key, ordinal, kind, item_group, source_image, label, edit_type, slot, stage, "
            "caption, instruction, state, attempts, fence, worker, due_at, reason, code, detail, result"
        )
        copied = copied.replace("INTO items SELECT", f"INTO items ({columns}) SELECT")
        connection.execute(text(copied), {"new": second, "old": first})
        connection.execute(text("UPDATE runs SET stage = 2 WHERE id = :new"), {"new": second})
    joined = await read(gateway, run_id, "/findings/1")
    assert [each["pairs"] for each in joined["runs"]] == [0, 4, 0]
    assert joined["runs"][2]["dropped"] == {"image-used-before": 4}


class Fragile(FakeEditor):
    """Fails at every edit while it is out of order."""

    broken = False

    async def edit(self, request: EditRequest) -> EditResponse:
        if self.broken:
            raise InternalError("the editor is out of order")
        return await super().edit(request)


async def test_a_child_whose_pairs_failed_is_resumed_and_counts_then(tmp_path: Path) -> None:
    editors: list[Fragile] = []

    def ports(world: Any) -> Any:
        editors.append(Fragile(world))
        return fake_services(world, editor=editors[0])

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        run_id = await filled(gateway)
        editors[0].broken = True
        child = await proven(gateway, run_id, images=ENOUGH)
        joined = await read(gateway, run_id, "/findings/1")
        assert (joined["finding"]["state"], joined["e_value"]) == ("suspected", 1.0)
        assert joined["runs"][1]["planned"] == ENOUGH
        assert (await read(gateway, child, "/summary"))["findings"][0]["state"] == "suspected"
        editors[0].broken = False
        await gateway.http.post(f"/v1/runs/{child}/resume")
        await gateway.worker().work_off()
        assert (await read(gateway, child))["state"] == "completed"
        assert (await read(gateway, child, "/summary"))["findings"][0]["state"] == "breaks"
        assert violated(gateway.ledger, child) == []


async def test_a_child_outlives_its_run(gateway: FakeGateway) -> None:
    run_id = await filled(gateway)
    child = await proven(gateway, run_id, images=ENOUGH)
    with gateway.ledger._session.database.writing() as connection:
        for table, column in (
            ("blob_uses", "run_id"),
            ("items", "run_id"),
            ("events", "run_id"),
            ("runs", "id"),
        ):
            connection.execute(text(f"DELETE FROM {table} WHERE {column} = :run"), {"run": run_id})
    summary = await read(gateway, child, "/summary")
    assert summary["findings"][0]["state"] == "breaks"
    assert "That run was deleted" in summary["verdict"]
    assert (await gateway.http.get(f"/v1/runs/{child}/report")).status_code == 200
    assert (await prove(gateway, run_id)).status_code == 404
    assert (await prove(gateway, child)).status_code == 404


async def test_where_no_image_is_left_those_at_hand_are_drawn_again(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, suite=fake_suite(redraw="virtual")) as gateway:
        run_id = await filled(gateway, per_class=5)
        told = await read(gateway, run_id, "/findings/1")
        assert (told["images_left"], told["redraws_left"]) == (0, 5 * MOST_DRAWS)
        assert "more repeats" in told["outlook"]
        assert (await read(gateway, run_id, "/summary"))["pairs_left"]["1"] == 5 * MOST_DRAWS
        # The change applies to all five, though the screen may have shown it on one.
        shown_once = Finding.model_validate(
            told["told"] | {"screened": told["told"]["screened"] | {"n_sources": 1}}
        )
        run, ledger = gateway.ledger.runs.get(run_id), gateway.ledger
        assert pairs_left(run, [shown_once], read_columns(run, ledger), ledger) == {1: 5 * MOST_DRAWS}
        child = await proven(gateway, run_id, images=12)
        assert (await read(gateway, child))["resolved_config"]["proof"]["drawn"] is True
        joined = await read(gateway, run_id, "/findings/1")
        assert joined["finding"]["confirmed"]["scope"] == "images"
        places = [(pair["source"], pair["edit"]) for pair in joined["pairs"]]
        assert (len(places), len({source for source, _ in places})) == (12, 5)
        evidence = joined["e_value"]

        again = await proven(gateway, run_id, images=4, seed=3 + 1)
        runs = (await read(gateway, run_id, "/findings/1"))["runs"]
        assert [each["pairs"] for each in runs] == [0, 12, 0], "the same noise is no new evidence"
        assert runs[2]["dropped"] == {"image-used-before": 4}
        assert (await read(gateway, again, "/summary"))["findings"][0]["of"] == 12
        await proven(gateway, run_id, images=4)
        assert (await read(gateway, run_id, "/findings/1"))["e_value"] > evidence
