"""Dataset interfaces over a real ledger and fake services: learning in links, validation, generation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.captioner import CaptionRequest, CaptionResponse
from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary, Images, TokenItem
from counterpose_core.contract.editor import GenerateRequest, GenerateResponse
from counterpose_core.contract.runs import PageOfItems, Run
from counterpose_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse
from counterpose_core.contract.tokens import (
    LearnedToken,
    LearnTokenItem,
    LearnTokensRequest,
    LearnTokensResponse,
)
from counterpose_core.errors import BackendUnavailable, DatasetEmpty, InvalidRequest
from counterpose_gateway.records.items import MAX_ATTEMPTS
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import Clock
from fakes.ports import FakeCaptioner, FakeEditor, FakeScorer, fake_services, refusing
from fakes.world import CLASSES, FakeWorld, Shown

ROOT = "/v1/dataset-interfaces"
BODY = {"dataset": "demo", "steps": 120, "seed": 5}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path, Clock()) as opened:
        await opened.upload("demo", 3)
        yield opened


async def created(gateway: FakeGateway, key: str | None = None, **changes: Any) -> Run:
    headers = {} if key is None else {"idempotency-key": key}
    answer = await gateway.http.post(ROOT, json=BODY | changes, headers=headers)
    assert answer.status_code == 202, answer.text
    return Run.model_validate_json(answer.content)


async def summary(gateway: FakeGateway, run: Run) -> DatasetInterfaceSummary:
    answer = await gateway.http.get(f"/v1/runs/{run.id}/summary")
    return DatasetInterfaceSummary.model_validate_json(answer.content)


def watched(gateway: FakeGateway) -> FakeEditor:
    editor = gateway.services.editor
    assert isinstance(editor, FakeEditor)
    return editor


class RecordingEditor(FakeEditor):
    """Records its requests; only the class in ``broken`` fails."""

    def __init__(self, world: FakeWorld, broken: str = "") -> None:
        super().__init__(world)
        self.asked: list[LearnTokensRequest] = []
        self.broken = broken

    async def learn_tokens(self, request: LearnTokensRequest) -> LearnTokensResponse:
        self.asked.append(request)
        answer = await super().learn_tokens(request)
        broken = [item.class_name == self.broken for item in request.items]
        return refusing(answer, broken, DatasetEmpty("none of its images can be read"))


@pytest.mark.paper("DI-S2-interface")
async def test_classes_are_learned_in_links_and_validated(gateway: FakeGateway) -> None:
    run = await created(gateway)
    assert (run.kind, run.request_counts.total) == ("dataset-interface", len(CLASSES))
    await gateway.worker().work_off()
    found = await summary(gateway, run)
    assert (await gateway.http.get(f"/v1/runs/{run.id}")).json()["state"] == "completed"
    assert list(found.tokens) == sorted(CLASSES)
    assert found.missing == {}
    # 120 steps in links of 50, all four classes in each call.
    assert watched(gateway).calls["learn_tokens"] == 3
    token = found.tokens["sled"]
    assert (token.steps, token.n_images, len(token.losses), token.losses_over) == (120, 3, 60, 2)
    assert token.losses[0] == pytest.approx((1.0 + 0.5) / 2)
    assert token.initialiser == "sled"
    assert token.object_similarity is not None
    assert (token.object_similarity.n, len(token.token_images), len(token.name_images)) == (8, 8, 8)
    assert token.real_similarity is not None
    assert token.real_similarity.n == 3
    assert found.cost.unet_evaluations == 4 * 120
    assert violated(gateway.ledger, run.id) == []


async def test_the_smallest_equally_good_interpolation_weight_is_kept(gateway: FakeGateway) -> None:
    class Telling(FakeScorer):
        """Embeds every real image at its class's own axis, and generated ones where their token puts them."""

        async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
            answer = await super().embed_images(request)
            vectors = [corner(self.world.shown[image]) for image in request.images]
            return answer.model_copy(update={"outcomes": [Outcome(value=one) for one in vectors]})

    def corner(shown: Shown) -> Embedding:
        place = [0.0] * 256
        name, _, share = shown.caption.partition("@") if "@" in shown.caption else (shown.label, "", "")
        place[CLASSES.index(name)] = 1.0
        # The boat gains by learning, the kite drifts to the plate.
        if name == "boat":
            place[100] = 1.0 - float(share or 1.0)
        if name == "kite":
            place[CLASSES.index("plate")] = float(share or 0.0)
        return Embedding(vector=place)

    class Drawing(RecordingEditor):
        """Draws what a token stands for, from the table of tokens it has offered."""

        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            answer = await super().generate(request)
            for item, outcome in zip(request.items, answer.outcomes, strict=True):
                name, share = self.made_of.get(item.token or "", (item.prompt.split()[-1], 0.0))
                self.world.shown[outcome.unwrap().image] = Shown(name, f"{name}@{share}")
            return answer

        def learn(self, request: LearnTokensRequest, item: LearnTokenItem) -> LearnedToken:
            learned = super().learn(request, item)
            self.made_of.update(
                {each.bundle: (item.class_name, each.interpolation_weight) for each in learned.offers}
            )
            return learned

        made_of: ClassVar[dict[str, tuple[str, float]]] = {}

    run = await created(gateway, prompts="templates")
    services = fake_services(gateway.world, editor=Drawing(gateway.world), scorer=Telling(gateway.world))
    await gateway.worker(services).work_off()
    found = await summary(gateway, run)
    assert found.missing == {}
    assert {name: token.interpolation_weight for name, token in found.tokens.items()} == {
        "boat": 1.0, "kite": 0.0, "plate": 0.0, "sled": 0.0,
    }  # fmt: skip
    boat = found.tokens["boat"]
    assert [each.interpolation_weight for each in boat.candidates] == [0.0, 0.5, 1.0]
    assert boat.token == boat.candidates[2].token
    assert boat.candidates[2].resemblance.n == 24
    assert found.tokens["kite"].token == found.tokens["kite"].candidates[0].token


async def test_items_and_results_match_the_schema_of_their_kind(gateway: FakeGateway) -> None:
    run = await created(gateway)
    await gateway.worker().work_off()
    answer = await gateway.http.get(f"/v1/runs/{run.id}/items")
    page = PageOfItems[TokenItem].model_validate_json(answer.content)
    assert [(item.kind, item.label, item.state) for item in page.items] == [
        ("token", name, "done") for name in sorted(CLASSES)
    ]
    lines = (await gateway.http.get(f"/v1/runs/{run.id}/results")).text.splitlines()
    assert TokenItem.model_validate_json(lines[0]) == page.items[0]
    # Nor is it a run of any other kind.
    assert (await gateway.http.get(f"/v1/runs/{run.id}/findings/1")).status_code == 404
    assert (await gateway.http.get("/v1/runs", params={"kind": "stress-test"})).json()["runs"] == []
    assert (await gateway.http.get("/v1/runs")).json()["runs"][0]["id"] == run.id


async def test_captions_become_prompts_without_the_class(gateway: FakeGateway) -> None:
    editor = RecordingEditor(gateway.world)
    run = await created(gateway, prompts="captions", classes=["boat", "kite"])
    await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
    assert {item.class_name: item.prompts for item in editor.asked[0].items} == {
        name: ["a photo of a <class> on the grass next to a dog"] * 3 for name in ("boat", "kite")
    }
    assert (await summary(gateway, run)).tokens["boat"].own_words == ["boat"]


async def test_templates_do_not_call_the_captioner(gateway: FakeGateway) -> None:
    editor = RecordingEditor(gateway.world)
    await created(gateway, prompts="templates", token_init="toy", vectors=2)
    await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
    assert {(item.initialiser, item.prompts) for item in editor.asked[0].items} == {("toy", None)}
    assert (editor.asked[0].preset.vectors, editor.asked[0].preset.steps) == (2, 120)
    captioner = gateway.services.captioner
    assert isinstance(captioner, FakeCaptioner)
    assert captioner.calls["caption"] == 0


async def test_an_unreadable_image_uses_a_template_as_its_prompt(gateway: FakeGateway) -> None:
    class Blind(FakeCaptioner):
        async def caption(self, request: CaptionRequest) -> CaptionResponse:
            answer = await super().caption(request)
            problem = Problem.of(InvalidRequest("cannot be read"))
            return answer.model_copy(update={"outcomes": [Outcome(problem=problem), *answer.outcomes[1:]]})

    editor = RecordingEditor(gateway.world)
    services = fake_services(gateway.world, editor=editor, captioner=Blind(gateway.world))
    run = await created(gateway, prompts="captions", classes=["boat"])
    await gateway.worker(services).work_off()
    prompts = editor.asked[0].items[0].prompts or []
    assert prompts[0] == "a photo of a <class>"
    assert len(set(prompts[1:])) == 1
    assert (await summary(gateway, run)).missing == {}


async def test_a_class_that_cannot_be_learned_is_reported_and_does_not_affect_others(
    gateway: FakeGateway,
) -> None:
    run = await created(gateway)
    editor = RecordingEditor(gateway.world, broken="boat")
    await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
    found = await summary(gateway, run)
    assert sorted(found.tokens) == ["kite", "plate", "sled"]
    assert found.missing == {"boat": "dataset-empty: none of its images can be read"}
    assert [len(request.items) for request in editor.asked] == [4, 3, 3]
    assert (await gateway.http.get(f"/v1/runs/{run.id}")).json()["state"] == "completed_with_failures"


async def test_a_chain_without_progress_stops(gateway: FakeGateway) -> None:
    class Idle(RecordingEditor):
        def learn(self, request: LearnTokensRequest, item: LearnTokenItem) -> LearnedToken:
            return super().learn(request, item).model_copy(update={"steps": 0, "bundle": None})

    run = await created(gateway, classes=["boat"])
    editor = Idle(gateway.world)
    await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
    (item,) = gateway.ledger.items.of(run.id, TokenItem)
    assert (item.state, len(editor.asked)) == ("pending", 1)
    assert item.attempts < MAX_ATTEMPTS


@pytest.mark.fault("F19")
async def test_finished_classes_of_a_cancelled_interface_are_usable(gateway: FakeGateway) -> None:
    many = tuple(f"class {number}" for number in range(10))
    await gateway.upload("many", 1, many)

    class Failing(RecordingEditor):
        async def learn_tokens(self, request: LearnTokensRequest) -> LearnTokensResponse:
            if len(request.items) < 8:
                raise BackendUnavailable("the editor is away")
            return await super().learn_tokens(request)

    run = await created(gateway, dataset="many")
    await gateway.worker(fake_services(gateway.world, editor=Failing(gateway.world))).work_off()
    await gateway.http.post(f"/v1/runs/{run.id}/cancel")
    found = await summary(gateway, run)
    assert list(found.tokens) == list(many[:8])
    assert found.missing == dict.fromkeys(many[8:], "learning was cancelled")
    answer = await images(gateway, run, class_name=many[0])
    assert len(answer.images) == 2
    refused = await gateway.http.post(f"/v1/runs/{run.id}/generate", json=ASKED | {"class_name": many[9]})
    assert refused.status_code == 422
    assert "not learned a token" in refused.json()["detail"]
    # Resumed, it learns the rest and none of the finished classes again.
    await gateway.http.post(f"/v1/runs/{run.id}/resume")
    editor = RecordingEditor(gateway.world)
    await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
    assert {item.class_name for item in editor.asked[0].items} == set(many[8:])
    assert (await summary(gateway, run)).missing == {}


ASKED = {"class_name": "sled", "n": 2, "seed": 1}


async def images(gateway: FakeGateway, run: Run, **changes: Any) -> Images:
    answer = await gateway.http.post(f"/v1/runs/{run.id}/generate", json=ASKED | changes)
    assert answer.status_code == 200, answer.text
    return Images.model_validate_json(answer.content)


@pytest.mark.paper("DI-S2-interface", "DI-S3-class-names")
async def test_any_shift_is_generated_from_its_text(gateway: FakeGateway) -> None:
    run = await created(gateway)
    await gateway.worker().work_off()
    snowy = await images(gateway, run, shift="in the snow", n=3)
    plain = await images(gateway, run)
    named = await images(gateway, run, by_name=True)
    empty = await images(gateway, run, shift="a sketch of an empty <class>", by_name=True)
    token = (await summary(gateway, run)).tokens["sled"].token
    assert [each.prompt for each in snowy.images] == ["A photo of a <class> in the snow"] * 3
    assert {each.token for each in snowy.images} == {token}
    assert (plain.images[0].prompt, plain.images[0].shift) == ("A photo of a <class>", "base")
    assert (named.images[0].prompt, named.images[0].token) == ("A photo of a sled", None)
    assert empty.images[0].prompt == "a sketch of an empty sled"
    # Seeds depend on class and position only, not on the shift or the number of images.
    assert [each.seed for each in snowy.images][:2] == [each.seed for each in plain.images]
    assert len({each.seed for each in snowy.images}) == 3


@pytest.mark.fault("B33", "B36")
@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"class_name": "tram"}, "/class_name", "no class 'tram'"),
        ({"shift": "a photo of a sled"}, "/shift", "no <class>"),
        ({"shift": "<class> and <class>"}, "/shift", "2 <class>"),
        ({"shift": "a photo of a <class>"}, "/shift", "is the base prompt"),
        ({"shift": " ".join(["very"] * 80)}, "/shift", "80"),
        ({"scheduler": "FlowMatchEulerDiscreteScheduler"}, "/scheduler", "EulerDiscreteScheduler"),
    ],
)
async def test_an_impossible_generation_is_refused_by_its_pointer(
    gateway: FakeGateway, changes: dict[str, Any], pointer: str, said: str
) -> None:
    run = await created(gateway)
    await gateway.worker().work_off()
    answer = await gateway.http.post(f"/v1/runs/{run.id}/generate", json=ASKED | changes)
    problem = Problem.model_validate_json(answer.content)
    assert answer.status_code == 422, answer.text
    assert [error.pointer for error in problem.errors] == [pointer]
    assert said in problem.detail + problem.errors[0].detail
    assert watched(gateway).calls["generate"] == 5 * len(CLASSES)


@pytest.mark.fault("B32")
@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"classes": ["plate", "tram"]}, "/classes/1", "no class 'tram'"),
        ({"classes": ["plate", "plate"]}, "/classes", "'plate' is listed twice"),
        ({"token_init": "a <class>"}, "/token_init", "slot"),
        ({"steps": 0}, "/steps", ""),
        ({"vectors": 17}, "/vectors", ""),
        ({"steps": 30_000}, "/steps", ""),
    ],
)
async def test_an_impossible_request_is_refused_by_its_pointer(
    gateway: FakeGateway, changes: dict[str, Any], pointer: str, said: str
) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | changes)
    problem = Problem.model_validate_json(answer.content)
    assert answer.status_code == 422, answer.text
    assert [error.pointer for error in problem.errors] == [pointer]
    assert said in problem.detail + problem.errors[0].detail
    assert (await gateway.http.get("/v1/runs")).json()["runs"] == []


@pytest.mark.fault("B47")
async def test_a_missing_dataset_is_reported_by_its_pointer(gateway: FakeGateway) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | {"dataset": "nowhere"})
    problem = Problem.model_validate_json(answer.content)
    assert (answer.status_code, problem.code) == (404, "unknown-dataset")
    assert [error.pointer for error in problem.errors] == ["/dataset"]


@pytest.mark.fault("B32")
@pytest.mark.parametrize("name", ["a <class>", "{sled}", "< Class >"])
async def test_class_names_without_words_are_refused(gateway: FakeGateway, name: str) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "odd", "classes": ["sled", name]})
    answer = await gateway.http.post(ROOT, json=BODY | {"dataset": "odd"})
    # Some are not valid labels either, and are refused at upload.
    assert answer.status_code in (404, 422), answer.text
    assert (await gateway.http.get("/v1/runs")).json()["runs"] == []


async def test_too_many_images_exceed_the_quota(gateway: FakeGateway) -> None:
    run = await created(gateway)
    answer = await gateway.http.post(f"/v1/runs/{run.id}/generate", json=ASKED | {"n": 65})
    assert (answer.status_code, answer.json()["code"]) == (429, "quota-exceeded")


@pytest.mark.fault("B47")
async def test_a_class_without_images_is_listed_as_missing(gateway: FakeGateway) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "gaps", "classes": ["sled", "boat"]})
    body = {"sources": [gateway.source("sled", 0)]}
    await gateway.http.post("/v1/datasets/gaps/sources", json=body)
    run = await created(gateway, dataset="gaps")
    assert (await summary(gateway, run)).missing == {
        "boat": "the dataset has no image of this class",
        "sled": "the token is not learned yet",
    }
    none = await gateway.http.post(ROOT, json=BODY | {"dataset": "gaps", "classes": ["boat"]})
    assert (none.status_code, none.json()["code"]) == (422, "dataset-empty")


async def test_one_key_makes_one_run(gateway: FakeGateway) -> None:
    first = await created(gateway, key="mine")
    assert (await created(gateway, key="mine")).id == first.id
    other = await gateway.http.post(ROOT, json=BODY | {"seed": 6}, headers={"idempotency-key": "mine"})
    assert other.json()["code"] == "idempotency-conflict"


async def test_too_many_classes_are_refused(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, max_items_per_run=3) as small:
        await small.upload("demo", 1)
        answer = await small.http.post(ROOT, json=BODY)
        assert answer.json()["code"] == "quota-exceeded"
        assert (await small.http.post(ROOT, json=BODY | {"classes": ["sled"]})).status_code == 202
