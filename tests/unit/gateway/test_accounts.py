"""The account of calls to services that ask others: reserved before each try, settled by the answer."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import httpx
import pytest

from counterpose_core.contract import captioner, editor, judges, perturber, scorer
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.spending import SPENT_HEADER, Price, SpendingLimits, Spent
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    BudgetSpent,
    DeadlineExceeded,
    InvalidRequest,
)
from counterpose_core.served_calls import called_models, suite_of_request
from counterpose_core.suite import JudgeSuite, Suite
from counterpose_core.suite_chats import ChatSuite
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.records.spending import Allotment
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.calls import RUN
from counterpose_gateway.services.clients import services_of
from counterpose_gateway.services.ports import Services
from fakes.service_http import Handler, answering, caller_over, refusal
from fakes.world import fake_suite

REF = "a" * 64
URL = "https://servers.example/v1"
ASKED = captioner.CaptionRequest(items=[captioner.CaptionItem(image=REF)])
CAPTION = {"value": {"text": "a sled", "log_likelihood": -1.0, "tokens": 2}}
GOOD = {"outcomes": [CAPTION], "model": {"id": "m", "revision": "0"}}
TOOK = Spent(calls=2, input_tokens=812, output_tokens=9)
TOLD = {SPENT_HEADER: TOOK.model_dump_json()}


class Book:
    """What was reserved and settled, in order; refuses after ``room`` reservations."""

    def __init__(self, room: int = 99) -> None:
        self.lines: list[tuple[str, Spent]] = []
        self.room = room

    async def reserve(self, run_id: str, service: str, most: Spent) -> str:
        """Reserve."""
        if not self.room:
            raise BudgetSpent("spent")
        self.room -= 1
        self.lines.append((f"{run_id} {service}", most))
        return f"call {len(self.lines)}"

    async def settle(self, run_id: str, call: str, spent: Spent) -> None:
        """Settle."""
        self.lines.append((f"{run_id} {call}", spent))


CHATS = {
    "scene": ChatSuite(server=URL, model="vlm", max_tokens=30),
    "whole": ChatSuite(server="https://other.example/v1", model="vlm-2", answers="labels"),
}
SHOWN = {"images": [REF, "b" * 64], "classes": ["boat", "tram", "sled"]}


def calling_suite() -> Suite:
    suite = fake_suite()
    own = {"engine": "openai", "server": URL}
    return suite.model_copy(
        update={
            "captioner_part": suite.captioner.model_copy(update=own | {"max_tokens": 60}),
            "perturber_part": suite.perturber.model_copy(
                update=own | {"max_new_tokens": 400, "prompt": "chat"}
            ),
            "editor_part": suite.editor.model_copy(update={"server": URL}),
            "judge": JudgeSuite(server=URL, model="vlm", max_tokens=200),
            "chat": CHATS,
        }
    )


def services_over(handle: Handler, book: Book, suite: Suite | None = None) -> Services:
    return services_of(caller_over(handle, accounted=Accounted(book, suite or calling_suite())))


@pytest.fixture(autouse=True)
def run() -> None:
    RUN.set("run-1")


async def test_a_call_is_reserved_at_its_most_and_settled_at_what_it_took() -> None:
    handle, _ = answering(httpx.Response(200, json=GOOD, headers=TOLD))
    await services_over(handle, book := Book()).captioner.caption(ASKED)
    # A caption is written, and then weighed.
    assert book.lines == [
        ("run-1 captioner", Spent(calls=2, output_tokens=61)),
        ("run-1 call 1", TOOK),
    ]


async def test_each_try_has_its_own_account() -> None:
    lost = httpx.ReadError("reset")
    failed = refusal(BackendUnavailable("its server is down"))
    failed.headers[SPENT_HEADER] = Spent(calls=1).model_dump_json()
    handle, _ = answering(
        lost, failed, httpx.ConnectError("refused"), httpx.Response(429), httpx.Response(200, json=GOOD)
    )
    await services_over(handle, book := Book()).captioner.caption(ASKED)
    settled = [line for line in book.lines if "call" in line[0]]
    # Of the first nobody knows; the last answer does not tell, so what was reserved stays.
    assert settled == [
        ("run-1 call 2", Spent(calls=1)),
        ("run-1 call 4", Spent()),
        ("run-1 call 6", Spent()),
    ]
    assert len(book.lines) - len(settled) == 5


@pytest.mark.parametrize("told", ["", "2", '{"calls": -1}', '{"input_tokens": 1' + 30 * "0" + "}", "<html>"])
async def test_a_header_that_cannot_be_read_leaves_what_was_reserved(told: str) -> None:
    handle, _ = answering(httpx.Response(200, json=GOOD, headers={SPENT_HEADER: told}))
    await services_over(handle, book := Book()).captioner.caption(ASKED)
    assert len(book.lines) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 503])
async def test_what_never_reached_the_service_costs_nothing(status: int) -> None:
    handle, _ = answering(httpx.Response(status, text="no such path"), httpx.Response(200, json=GOOD))
    with suppress(BadBackendOutput):
        await services_over(handle, book := Book()).captioner.caption(ASKED)
    assert book.lines[1] == ("run-1 call 1", Spent())


@pytest.mark.parametrize(
    "answer", [httpx.Response(500, text="died"), refusal(BackendUnavailable("its server is down"))]
)
async def test_a_failure_inside_the_service_leaves_what_was_reserved(answer: httpx.Response) -> None:
    handle, _ = answering(answer, httpx.Response(200, json=GOOD, headers=TOLD))
    await services_over(handle, book := Book()).captioner.caption(ASKED)
    assert [name for name, _ in book.lines] == ["run-1 captioner", "run-1 captioner", "run-1 call 2"]


async def test_a_service_that_cannot_be_reached_in_time_costs_nothing() -> None:
    handle, _ = answering(httpx.ConnectTimeout("nobody there"), httpx.Response(200, json=GOOD, headers=TOLD))
    await services_over(handle, book := Book()).captioner.caption(ASKED)
    assert book.lines[1] == ("run-1 call 1", Spent())


async def test_a_call_without_room_is_not_made() -> None:
    handle, seen = answering(httpx.Response(200, json=GOOD, headers=TOLD))
    with pytest.raises(BudgetSpent):
        await services_over(handle, Book(room=0)).captioner.caption(ASKED)
    assert seen == []


async def test_a_missed_deadline_leaves_what_was_reserved() -> None:
    handle, _ = answering(httpx.ReadTimeout("late"))
    with pytest.raises(DeadlineExceeded):
        await services_over(handle, book := Book()).captioner.caption(ASKED)
    assert len(book.lines) == 1


async def test_what_costs_nothing_or_belongs_to_no_run_has_no_account() -> None:
    handle, _ = answering(httpx.Response(200, json=GOOD, headers=TOLD))
    await services_over(handle, book := Book(), fake_suite()).captioner.caption(ASKED)
    RUN.set(None)
    await services_over(handle, book).captioner.caption(ASKED)
    assert book.lines == []


def edits(*edited: str) -> editor.EditRequest:
    items = [editor.EditItem(image=REF, caption="a sled", edited_caption=text) for text in edited]
    return editor.EditRequest(items=items, preset=ImagesApiPreset(backend="images-api"))


def judged(judge: judges.AskedJudge) -> judges.JudgeRequest:
    item = judges.JudgeItem(original=REF, edited=REF, label="sled", caption="a sled", edited_caption="snow")
    return judges.JudgeRequest(judge=judge, items=[item])


PERTURBED = perturber.PerturbRequest(
    items=[perturber.PerturbItem(caption="a sled", perturbation_type="domain", n=n, seed=0) for n in (3, 5)]
)


@pytest.mark.parametrize(
    ("service", "body", "most"),
    [
        ("editor", edits("a red sled", "a sled"), Spent(calls=3, images=3)),
        ("editor", edits("a red sled", "A sled."), Spent(calls=3, images=3)),
        (
            "editor",
            editor.GenerateRequest(items=[editor.GenerateItem(prompt="a sled", seed=0)]),
            Spent(calls=1, images=1),
        ),
        ("perturber", PERTURBED, Spent(calls=6, output_tokens=2400)),
        ("perturber", perturber.LikelihoodsRequest(texts=["a", "b"]), Spent(calls=2)),
        (
            "captioner",
            captioner.LogLikelihoodRequest(
                items=[captioner.LogLikelihoodItem(image=REF, prefix="", text="a")]
            ),
            Spent(calls=2, output_tokens=2),
        ),
        ("scorer", scorer.EmbedTextsRequest(texts=["a"]), None),
        # Two more calls look whether the judge sees.
        ("scorer", judged("judge"), Spent(calls=3, output_tokens=600)),
        ("scorer", judged("encoder"), None),
    ],
)
def test_the_most_of_each_call(service: str, body: object, most: Spent | None) -> None:
    assert Accounted(Book(), calling_suite()).most_of(service, body) == most  # type: ignore[arg-type]  # bodies all


def test_the_compact_prompt_draws_one_edit_at_a_time() -> None:
    suite = calling_suite()
    compact = suite.perturber.model_copy(update={"prompt": "compact"})
    suite = suite.model_copy(update={"perturber_part": compact})
    assert Accounted(Book(), suite).most_of("perturber", PERTURBED) == Spent(calls=24, output_tokens=9600)


def test_a_budget_is_of_what_the_method_asks() -> None:
    suite, needs = calling_suite(), SHIFT_BENCHMARK.needs
    model, _ = called_models(suite)["editor"]
    within = SpendingLimits(usd=5.0, prices={model: Price(usd_per_image=1.0)})
    found = Allotment.required(within, suite_of_request(None, suite, needs))
    assert (list(found.prices), found.unpriced) == (["editor"], [])
    own_editor = suite.model_copy(update={"editor_part": suite.editor.model_copy(update={"server": None})})
    with pytest.raises(InvalidRequest, match="no service that the run asks calls a server"):
        Allotment.required(within, suite_of_request(None, own_editor, needs))


@pytest.mark.parametrize(
    ("vary", "called"), [(0.0, {"captioner", "editor"}), (0.5, {"captioner", "perturber", "editor"})]
)
def test_a_hunt_asks_the_perturber_only_to_vary_captions(vary: float, called: set[str]) -> None:
    asked = suite_of_request(SimpleNamespace(vary=vary), calling_suite(), BUG_HUNT.needs)
    assert called_models(asked).keys() == called


@pytest.mark.parametrize(
    ("classifier", "most"),
    [
        # What a replica looks at first is at most six calls.
        ("chat:scene", Spent(calls=2 + 6, output_tokens=30 * (2 + 6))),
        ("chat:whole", Spent(calls=2 * 4 + 6, output_tokens=2 * 4 + 6 * 64)),
    ],
)
async def test_a_classifier_that_chats_has_an_account_of_its_own(classifier: str, most: Spent) -> None:
    answered = {"outcomes": 2 * [{"value": {"probabilities": [1, 0, 0], "top": [0]}}], "model": GOOD["model"]}
    handle, _ = answering(httpx.Response(200, json=answered, headers=TOLD))
    request = ClassifyRequest.model_validate({"classifier": classifier, **SHOWN})
    await services_over(handle, book := Book()).classifiers.classify(request)
    assert book.lines == [(f"run-1 {classifier}", most), ("run-1 call 1", TOOK)]


async def test_another_classifier_costs_nothing() -> None:
    answered = {"outcomes": 2 * [{"value": {"probabilities": [1, 0, 0], "top": [0]}}], "model": GOOD["model"]}
    handle, _ = answering(httpx.Response(200, json=answered))
    request = ClassifyRequest.model_validate({"classifier": "timm:resnet50", **SHOWN})
    await services_over(handle, book := Book()).classifiers.classify(request)
    assert book.lines == []


def test_a_run_pays_the_classifiers_that_it_names_each_at_its_price() -> None:
    request = SimpleNamespace(classifiers=["timm:resnet50", "chat:whole"], judges=())
    suite = suite_of_request(request, calling_suite(), ())
    assert called_models(suite) == {"chat:whole": ("vlm-2", "other.example")}
    found = Allotment.of(SpendingLimits(usd=1.0, prices={"vlm-2": Price(usd_per_call=0.5)}), suite)
    assert found.unpriced == []
    assert found.refusal({"chat:whole": Spent(calls=1)}, "chat:whole", Spent(calls=1)) is None
    assert found.refusal({"chat:whole": Spent(calls=2)}, "chat:whole", Spent(calls=1)) is not None
