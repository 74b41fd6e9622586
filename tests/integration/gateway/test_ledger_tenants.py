"""Tenants in the ledger, on both databases: another's object is found as little as one that never was."""

from __future__ import annotations

import datetime as dt
import hashlib
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import Any

import pytest

from counterpose_core.contract.datasets import ImportCreate
from counterpose_core.contract.runs import Item
from counterpose_core.contract.spending import Spent
from counterpose_core.contract.webhooks import WebhookCreate
from counterpose_core.errors import (
    CounterposeError,
    IdempotencyConflict,
    InternalError,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    UnknownDataset,
)
from counterpose_core.shift_benchmark.shift_thresholds import ShiftDecision
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.records.tenants import DEFAULT_TENANT, Quota, Used
from fakes.ledgers import config, create_run, done, lease

NEVER = "0" * 32
DECISION = ShiftDecision(
    shift="at night", checkpoint="a", author="ann", decided_at=dt.datetime.now(dt.UTC), percentile=5.0,
    threshold=0.2, failing_above=(),
)  # fmt: skip
ASKED: dict[str, Callable[[str], dict[str, Any]]] = {
    "decisions.add": lambda run_id: {"decision": DECISION},
    "events.page": lambda run_id: {"after": 0},
    "items.get": lambda run_id: {"item_id": f"{run_id}.0", "shape": Item},
    "items.page": lambda run_id: {"shape": Item},
    "items.of": lambda run_id: {"shape": Item},
    "items.named": lambda run_id: {"shape": Item, "ids": [f"{run_id}.0"]},
    "items.newest": lambda run_id: {"shape": Item, "kind": "edit", "limit": 5},
    "runs.rename": lambda run_id: {"name": "mine"},
    "runs.stop": lambda run_id: {"why": InternalError("stop")},
    "spending.reserve": lambda run_id: {"call": "a" * 32, "service": "editor", "most": Spent(calls=1)},
    "spending.settle": lambda run_id: {"call": "a" * 32, "spent": Spent(calls=1)},
}
"""What a verb is given beside the run."""
OF_DATASETS: dict[str, Callable[[Ledger, str], object]] = {
    "datasets.add": lambda ledger, name: ledger.datasets.add(name, [source("a")]),
    "imports.create": lambda ledger, name: ledger.imports.create(
        name, ImportCreate(url="memory://a.tar"), "webdataset"
    ),
    "datasets.end": lambda ledger, name: ledger.datasets.end(name, 2e9),
    "datasets.has_source": lambda ledger, name: ledger.datasets.has_source(name, source("a")),
}
"""Verbs that are given more than a dataset's name."""
ALIKE = ("imports.has_ended", "imports.require_ended")
"""Verbs that say the same of a dataset without an import and of none."""


@pytest.fixture
def ours(ledger: Ledger) -> Ledger:
    """The ledger as the default tenant sees it."""
    return ledger.of(DEFAULT_TENANT)


@pytest.fixture
def theirs(ledger: Ledger) -> Ledger:
    """The ledger as another tenant sees it."""
    return ledger.of("acme")


def test_a_misspelt_dataset_is_answered_with_the_tenant_s_own_that_is_near(ledger: Ledger) -> None:
    ours, theirs = ledger.of("ours"), ledger.of("theirs")
    ours.datasets.create("photos", None)
    theirs.datasets.create("photo-album", None)
    for name in ("photoss", "Photos"):
        with pytest.raises(UnknownDataset, match=rf"'{name}' \(did you mean 'photos'\?\); create"):
            ours.datasets.get(name)
        with pytest.raises(UnknownDataset, match=r"'photoss' \(did you mean 'photos'\?\)"):
            ours.datasets.table("photoss")
    # Another tenant's name is told to nobody.
    with pytest.raises(UnknownDataset, match="no dataset is named 'photo-albumm'; create"):
        ours.datasets.get("photo-albumm")


def source(letter: str) -> NewSource:
    """An image called after a letter."""
    return NewSource(
        image=letter * 64, label="sled", filename=f"{letter}.png", caption=None, width=8, height=8,
        group=None, stored=10,
    )  # fmt: skip


def outcome(asked: Callable[[], object]) -> tuple[str, str]:
    """What a call comes to: its answer, or its error."""
    try:
        found = asked()
        return "answer", repr(list(found) if isinstance(found, Iterator) else found)
    except CounterposeError as error:
        return type(error).__name__, error.detail


def _asked(verb: str, ledger: Ledger, name: str) -> object:
    return attrgetter(verb)(ledger)(name)


def ended_run(ledger: Ledger) -> str:
    """A run with a result, a decision and a child."""
    run_id = create_run(ledger, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.items.finish(item.id, item.fence, done())
    ledger.decisions.add(run_id, DECISION)
    ledger.runs.create(
        kind="stress-test", dataset="demo", config=config(), items=[], fingerprint="f", parent=run_id
    )  # fmt: skip
    return run_id


def verbs(ledger: Ledger, first: str) -> set[str]:
    """The verbs of all parts of a ledger that are given this first, with the part in front."""
    return {
        f"{part}.{verb}"
        for part, value in vars(ledger).items()
        for verb, call in inspect.getmembers(type(value), inspect.isfunction)
        if not part.startswith("_") and not verb.startswith("_")
        and first in list(inspect.signature(call).parameters)[1:2]
    }  # fmt: skip


def answered(ledger: Ledger, verb: str, run_id: str) -> tuple[str, str]:
    """What a verb comes to for a run, without the run's id."""
    given = ASKED[verb](run_id) if verb in ASKED else {}
    kind, told = outcome(lambda: attrgetter(verb)(ledger)(run_id, **given))
    return kind, told.replace(run_id, "<id>")


@pytest.mark.fault("T4")
def test_no_verb_finds_a_run_of_another_tenant(ours: Ledger, theirs: Ledger) -> None:
    of_runs = verbs(ours, "run_id")
    assert len(of_runs) > 20
    for verb in sorted(of_runs | {"of_run"}):
        foreign = ended_run(ours)
        before = ours.runs.get(foreign)
        assert answered(theirs, verb, foreign) == answered(theirs, verb, NEVER), verb
        assert ours.runs.get(foreign) == before, verb
        # Or the verb would tell nothing of any run, and this would show nothing.
        silent = verb in ("of_run", "spending.settle")
        assert silent or answered(ours, verb, foreign) != answered(ours, verb, NEVER), verb


@pytest.mark.fault("T4")
def test_no_call_of_another_tenant_s_run_is_settled(ours: Ledger, theirs: Ledger) -> None:
    foreign, call = ended_run(ours), "a" * 32
    assert ours.spending.reserve(foreign, call, "editor", Spent(calls=1, images=1)) is None
    account = ours.spending.of(foreign)
    theirs.spending.settle(foreign, call, Spent(calls=9))
    assert ours.spending.of(foreign) == account
    ours.spending.settle(foreign, call, Spent(calls=9))
    assert ours.spending.of(foreign) != account


@pytest.mark.fault("T4")
def test_no_verb_finds_a_dataset_of_another_tenant(ours: Ledger, theirs: Ledger) -> None:
    named = verbs(ours, "name") - {"datasets.create"}
    assert OF_DATASETS.keys() <= named
    for verb in sorted(named):
        asked = OF_DATASETS.get(verb) or partial(_asked, verb)
        name = verb.replace("_", "-").replace(".", "-")
        ours.datasets.create(name, ["sled"])
        ours.datasets.add(name, [source("a")])
        foreign, never = outcome(partial(asked, theirs, name)), outcome(partial(asked, theirs, "none"))
        assert foreign == (never[0], never[1].replace("none", name)), verb
        assert verb in ALIKE or outcome(partial(asked, ours, name)) != never, verb
    theirs.datasets.create("pets", None)
    # The key of another tenant's dataset is no name.
    with pytest.raises(UnknownDataset):
        ours.datasets.get("acme/pets")


def test_two_tenants_use_one_name_and_keep_their_quotas(ours: Ledger, theirs: Ledger, ledger: Ledger) -> None:
    seen: list[int] = []
    for mine, letter in ((ours, "a"), (theirs, "b")):
        mine.datasets.create("pets", None, seen.append)
        mine.datasets.add("pets", [source(letter)])
        assert [one.image for one in mine.datasets.sources("pets")] == [letter * 64]
        assert [one.name for one in mine.datasets.all()] == ["pets"]
        assert mine.datasets.stored("pets").all_images == 1
    assert seen == [1, 1]
    assert [one.name for one in ledger.datasets.all()] == ["acme/pets", "pets"]
    assert theirs.datasets.is_source_image("b" * 64)
    assert not theirs.datasets.is_source_image("a" * 64)
    longest = theirs.of("a" * 48).datasets.create("b" * 96, None)
    assert longest.name == "b" * 96


def test_lists_have_the_tenants_own_and_cursors_belong_to_it(ours: Ledger, theirs: Ledger) -> None:
    mine = [create_run(theirs) for _ in range(3)]
    create_run(ours)
    page = theirs.runs.page(limit=2)
    assert {run.id for run in page.runs} <= set(mine)
    assert len(theirs.runs.page(after=page.after).runs) == 1
    with pytest.raises(InvalidRequest):
        ours.runs.page(after=page.after)
    with pytest.raises(NotFound):
        theirs.runs.create(
            kind="stress-test", dataset="demo", config={}, items=[], fingerprint="f",
            parent=ours.runs.page().runs[0].id,
        )  # fmt: skip


def test_a_deleted_run_is_remembered_to_its_own_tenant_alone(ours: Ledger, theirs: Ledger) -> None:
    run_id = create_run(ours)
    ours.runs.cancel(run_id)
    ours.runs.delete(run_id)
    with pytest.raises(NotFound, match="was deleted"):
        ours.runs.get(run_id)
    with pytest.raises(NotFound, match="no run has the id"):
        theirs.runs.get(run_id)


def test_idempotency_keys_are_the_tenants_own(ours: Ledger, theirs: Ledger) -> None:
    first, second = create_run(ours, key="once"), create_run(theirs, key="once")
    assert first != second
    assert (ours.runs.for_key("once", "f" * 64), theirs.runs.for_key("once", "f" * 64)) == (first, second)
    assert ours.idempotency.claim("datasets", "k", "one") is None
    assert theirs.idempotency.claim("datasets", "k", "two") is None
    with pytest.raises(IdempotencyConflict):
        theirs.idempotency.claim("datasets", "k", "three")
    # A key of the default tenant that is spelt as another's is kept.
    kept = f"acme {hashlib.sha256(b'once').hexdigest()}"
    assert (theirs.runs.has_key("once"), ours.runs.has_key(kept)) == (True, False)
    assert create_run(ours, key=kept) not in (first, second)
    assert theirs.runs.for_key("once", "f" * 64) == second


def test_jobs_and_webhooks_are_the_tenants_own(ours: Ledger, theirs: Ledger, ledger: Ledger) -> None:
    made = theirs.jobs.create(
        cluster="gpus", workers=1, kind="stress-test", request={"dataset": "pets"}, fingerprint="f",
        idempotency_key="once",
    )  # fmt: skip
    hook = theirs.webhooks.create(WebhookCreate(url="https://hooks.example.com/a"))
    assert (ours.jobs.page().jobs, ours.webhooks.all().webhooks) == ([], [])
    assert ours.jobs.for_key("once", "other") is None
    for asked in (ours.jobs.get, ours.jobs.begin_cancelling):
        with pytest.raises(NotFound, match="no job"):
            asked(made.id)
    for of_hook in (ours.webhooks.get, ours.webhooks.delete):
        with pytest.raises(NotFound):
            of_hook(hook.id)
    ledger.jobs.put_off(made, 0.0)
    leased = ledger.jobs.lease(("gpus",), 30.0)
    assert leased is not None
    assert leased.tenant == "acme"
    attempt = ledger.jobs.claim_attempt(leased)
    assert ledger.jobs.news(made.id, attempt.number).dataset == "acme/pets"


def test_a_webhook_is_told_of_its_own_tenants_runs_alone(
    ours: Ledger, theirs: Ledger, ledger: Ledger
) -> None:
    hooks = [each.webhooks.create(WebhookCreate(url="https://h.example.com/a")) for each in (ours, theirs)]
    run_id = create_run(theirs, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.items.finish(item.id, item.fence, done())
    first, second = ours.webhooks.get(hooks[0].id), theirs.webhooks.get(hooks[1].id)
    assert (first.deliveries, [one.run_id for one in second.deliveries]) == ([], [run_id])


@pytest.mark.fault("B62")
def test_a_blob_is_of_whoever_has_an_object_that_names_it(
    ours: Ledger, theirs: Ledger, ledger: Ledger
) -> None:
    theirs.datasets.create("pets", None)
    theirs.datasets.add("pets", [source("b")])
    theirs.blobs.keep({"c" * 64: 1})
    run_id = create_run(theirs, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.items.finish(item.id, item.fence, done("d" * 64))
    for letter in "abcd":
        assert theirs.blobs.holds(letter * 64), letter
        assert not ours.blobs.holds(letter * 64), letter
        assert ledger.blobs.holds(letter * 64), letter
    ours.blobs.keep({"d" * 64: 1})
    theirs.runs.delete(run_id)
    assert [letter for letter in "abcd" if theirs.blobs.holds(letter * 64)] == ["b", "c"]
    assert ours.blobs.holds("d" * 64)


@pytest.mark.parametrize(
    ("most", "served"), [(Quota(images=10), 1), (Quota(images=24), 3), (Quota(gpu_seconds=70.0), 2)]
)
def test_claims_at_once_are_no_more_than_a_tenant_has(
    ours: Ledger, theirs: Ledger, ledger: Ledger, most: Quota, served: int
) -> None:
    ledger.access.set_quota(DEFAULT_TENANT, most)
    together = threading.Barrier(8)

    def claimed(_: int) -> str | None:
        together.wait()
        try:
            return ours.access.claim(8, 60.0)
        except QuotaExceeded:
            return None

    with ThreadPoolExecutor(8) as pool:
        claims = [each for each in pool.map(claimed, range(8)) if each]
    assert len(claims) == served
    # Another tenant claims its own, and whoever settles makes room for one.
    theirs.access.settle(theirs.access.claim(8, 60.0), Used(8, 1.0))
    ours.access.settle(claims[0], Used())
    ours.access.claim(8, 60.0)
    with pytest.raises(QuotaExceeded):
        ours.access.claim(8, 60.0)
    assert (ours.access.usage().images, theirs.access.usage().images) == (0, 8)


def test_a_quota_is_of_the_tenant(ours: Ledger, theirs: Ledger) -> None:
    def refuse(number: int) -> None:
        if number > 1:
            raise QuotaExceeded("too many")

    ours.datasets.create("pets", None, refuse)
    theirs.datasets.create("pets", None, refuse)
    with pytest.raises(QuotaExceeded):
        theirs.datasets.create("cars", None, refuse)
