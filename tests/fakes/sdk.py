"""The SDK without a network: transports that answer from a script, and a clock that only tests advance."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx

from counterpose import AsyncClient, Client
from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, Problem
from counterpose_core.contract.jobs import Job
from counterpose_core.contract.runs import RequestCounts, Run, RunEvent
from counterpose_core.contract.stress_test_estimates import ProvableClass, StressTestEstimate
from counterpose_core.contract.stress_test_figures import HitRates
from counterpose_core.contract.stress_tests import (
    EditTypeSummary,
    InterventionSummary,
    ModelSummary,
    StressTestSummary,
)
from counterpose_core.errors import CounterposeError
from counterpose_core.types import Cost, Estimate, JobState, RunState

URL = "http://gateway.test"
Answer = httpx.Response | Exception


class Script:
    """Answers request after request; the last answer is repeated where ``endless``."""

    def __init__(self, *answers: Answer, endless: bool = False) -> None:
        self._answers = list(answers)
        self._endless = endless
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.seen.append(request)
        last = self._endless and len(self._answers) == 1
        answer = self._answers[0] if last else self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer.stream, BrokenStream) else _copy(answer)


def _copy(answer: httpx.Response) -> httpx.Response:
    # A response belongs to the client that read it; a script may be played to both.
    return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


class VirtualClock:
    """Remembers the pauses that were asked for and takes no time."""

    def __init__(self) -> None:
        self.pauses: list[float] = []


class ClockedClient(Client):
    """A client that sleeps on a virtual clock."""

    clock = VirtualClock()

    def _sleep(self, seconds: float) -> None:
        self.clock.pauses.append(seconds)


class ClockedAsyncClient(AsyncClient):
    """An asyncio client that sleeps on a virtual clock."""

    clock = VirtualClock()

    async def _sleep(self, seconds: float) -> None:
        self.clock.pauses.append(seconds)


class Session:
    """One client, blocking or asyncio, over a scripted gateway: a test says once what both must do."""

    def __init__(
        self, kind: str, *answers: Answer, endless: bool = False, url: str = URL, **options: Any
    ) -> None:
        self.kind = kind
        self.script = Script(*answers, endless=endless)
        self.clock = VirtualClock()
        transport = httpx.MockTransport(self.script)
        self.client: Any
        if kind == "sync":
            self.client = ClockedClient(http=httpx.Client(transport=transport, base_url=url), **options)
        else:
            http = httpx.AsyncClient(transport=transport, base_url=url)
            self.client = ClockedAsyncClient(http=http, **options)
        self.client.clock = self.clock

    @property
    def seen(self) -> list[httpx.Request]:
        """The requests that were sent."""
        return self.script.seen

    def __call__(self, ask: Callable[[Any], Any]) -> Any:
        """Do what ``ask`` wants of the client; awaitables are awaited, iterators read to their end."""
        made = ask(self.client)
        if inspect.isawaitable(made):
            return asyncio.run(_awaited(made))
        if isinstance(made, AsyncIterator):
            return asyncio.run(_listed(made))
        return list(made) if isinstance(made, Iterator) else made


async def _awaited(made: Any) -> Any:
    return await made


async def _listed(made: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in made]


class BrokenStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks after its first bytes."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[bytes]:
        yield self._begin
        raise httpx.ReadError("connection reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._begin
        raise httpx.ReadError("connection reset")


def ok(body: object, **headers: str) -> httpx.Response:
    """An answer with a JSON body."""
    text = body if isinstance(body, str) else json.dumps(body)
    return httpx.Response(200, text=text, headers={"content-type": "application/json", **headers})


def problem(error: CounterposeError, *, request_id: str = "r-1", **headers: str) -> httpx.Response:
    """An error as the gateway puts it."""
    content = Problem.of(error, request_id=request_id).model_dump_json()
    named = {"content-type": PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER: request_id}
    return httpx.Response(error.status, text=content, headers=named | headers)


def counts(done: int, total: int = 3) -> RequestCounts:
    """Progress of a run whose items all end well."""
    return RequestCounts(total=total, pending=total - done, done=done, filtered=0, failed=0, cancelled=0)


def a_run(state: RunState = "queued", done: int = 0, run_id: str = "run-1", kind: str = "stress-test") -> Run:
    """A run of three items."""
    return Run(
        id=run_id, kind=kind, state=state, dataset="demo",
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), request_counts=counts(done), resolved_config={},
    )  # fmt: skip


def one_run_listed() -> list[httpx.Response]:
    """The page of all runs, of which there is one."""
    return [ok({"runs": [json.loads(a_run().model_dump_json())]})]


def run_answer(state: RunState = "queued", done: int = 0, kind: str = "stress-test") -> httpx.Response:
    """The answer that describes such a run."""
    return ok(a_run(state, done, kind=kind).model_dump_json())


def a_job(state: JobState = "queued", *, run: str | None = "run-1", **fields: Any) -> Job:
    """A job whose run is the stress test."""
    return Job(
        id="j1", cluster="gpus", workers=8, kind="stress-test", state=state, run=run,
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), attempts=[], **fields,
    )  # fmt: skip


def job_answer(state: JobState = "queued", **fields: Any) -> httpx.Response:
    """The answer that describes such a job."""
    return ok(a_job(state, **fields).model_dump_json())


def an_event(number: int, state: RunState = "in_progress", done: int = 0) -> RunEvent:
    """A line of progress."""
    return RunEvent(id=number, run_id="run-1", state=state, request_counts=counts(done))


def sse_text(*events: RunEvent) -> str:
    """Events as the gateway streams them, after a heartbeat."""
    frames = (f"id: {e.id}\nevent: progress\ndata: {e.model_dump_json()}\n\n" for e in events)
    return ": heartbeat\n\n" + "".join(frames)


def stream_answer(*events: RunEvent) -> httpx.Response:
    """A stream that ends after these events, as one does that a proxy cuts."""
    return httpx.Response(200, text=sse_text(*events), headers={"content-type": "text/event-stream"})


def broken_stream_answer(*events: RunEvent) -> httpx.Response:
    """A stream that breaks after these events."""
    stream = BrokenStream(sse_text(*events).encode())
    return httpx.Response(200, stream=stream, headers={"content-type": "text/event-stream"})


def figure(estimate: float = 0.9, low: float = 0.8, high: float = 0.95, n: int = 39) -> Estimate:
    """A figure with its interval and n."""
    return Estimate(estimate=estimate, low=low, high=high, n=n)


def a_summary(**drops: Estimate) -> StressTestSummary:
    """A finished stress test in which each named classifier lost so much accuracy."""
    row = HitRates(hit_rates=(figure(), figure(0.99, 0.95, 1.0)), n_images=39)
    models = {
        name: ModelSummary(original=row, reconstruction=row, counterfactual=row, drop=drop, edit_types={})
        for name, drop in drops.items()
    }
    return StressTestSummary.model_validate(
        {
            "run_id": "run-1", "dataset": "demo", "seed": 0, "verdict": "No drop is proven.",
            "models": models, "edit_types": {}, "insights": [],
            "counts": {"planned": 3, "done": 3, "filtered": 0, "failed": 0, "cancelled": 0, "pending": 0},
            "verdicts": [
                {"classifier": name, "state": "holds", "finding": None, "sentence": f"{name} holds."}
                for name in drops
            ],
            "yield": {"gate-direction": figure()}, "dropped": {}, "cost": Cost(), "service_seconds": {},
            "wall_s": 1.0, "config": {},
        }
    )  # fmt: skip


def an_interventions_summary(**drops: Estimate) -> StressTestSummary:
    """A finished stress test of one edit of the user's own and no others."""
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    effects = {
        name: EditTypeSummary(delta_p=figure(), abs_delta_p=figure(), drop=drop, n_images=39)
        for name, drop in drops.items()
    }
    intervention = InterventionSummary(
        removed="", added="in the snow", planned=39, kept=39, not_applicable=0, **{"yield": figure()},
        models=effects, classes={}, sentences=[],
    )  # fmt: skip
    return a_summary(**dict.fromkeys(drops, nothing)).model_copy(
        update={"interventions": [intervention], "config": {"request": {"max_edits_per_image": 0}}}
    )


def summary_answer(summary: StressTestSummary) -> httpx.Response:
    """The answer that holds such figures."""
    return ok(summary.model_dump_json(by_alias=True))


def an_estimate() -> StressTestEstimate:
    """What a stress test of 48 images can prove."""
    return StressTestEstimate(
        images=48, screened=24, fresh=24, items=384, minutes=12.4, fastest=9.0, slowest=31.0, runs=3,
        hypotheses=4,
        least_pairs=7, power=0.75, reason=None,
        classes=[
            ProvableClass(object_class="bus", images=24, pairs=8, share=0.853),
            ProvableClass(object_class="tram", images=6, pairs=2, share=None),
        ],
    )  # fmt: skip
