"""Tenants in the ledger, on both databases: another's object is found as little as one that never was."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from counterpose_core.contract.datasets import ImportCreate
from counterpose_core.contract.runs import Item
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
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from fakes.ledgers import config, create_run, done, lease

NEVER = "0" * 32
DECISION = ShiftDecision(
    shift="at night", checkpoint="a", author="ann", decided_at=dt.datetime.now(dt.UTC), percentile=5.0,
    threshold=0.2, failing_above=(),
)  # fmt: skip
ASKED: dict[str, Callable[[str], dict[str, Any]]] = {
    "add_shift_decision": lambda run_id: {"decision": DECISION},
    "events": lambda run_id: {"after": 0},
    "item": lambda run_id: {"item_id": f"{run_id}.0", "shape": Item},
    "item_page": lambda run_id: {"shape": Item},
    "items_of": lambda run_id: {"shape": Item},
    "items_named": lambda run_id: {"shape": Item, "ids": [f"{run_id}.0"]},
    "newest_items": lambda run_id: {"shape": Item, "kind": "edit", "limit": 5},
    "rename": lambda run_id: {"name": "mine"},
    "stop_run": lambda run_id: {"why": InternalError("stop")},
}
"""What a verb is given beside the run."""
OF_RUNS = [
    name
    for name, verb in inspect.getmembers(Ledger, inspect.isfunction)
    if not name.startswith("_") and "run_id" in list(inspect.signature(verb).parameters)[1:2]
]
OF_DATASETS: dict[str, Callable[[Ledger, str], object]] = {
    "add_sources": lambda ledger, name: ledger.add_sources(name, [source("a")]),
    "cancel_import": Ledger.cancel_import,
    "classes": Ledger.classes,
    "create_import": lambda ledger, name: ledger.create_import(
        name, ImportCreate(url="memory://a.tar"), "webdataset"
    ),
    "dataset": Ledger.dataset,
    "delete_dataset": Ledger.delete_dataset,
    "end_dataset": lambda ledger, name: ledger.end_dataset(name, 2e9),
    "group_classes": Ledger.group_classes,
    "has_dataset": Ledger.has_dataset,
    "has_fixed_classes": Ledger.has_fixed_classes,
    "has_source": lambda ledger, name: ledger.has_source(name, "a" * 64, "sled", "a.png"),
    "import_ended": Ledger.import_ended,
    "require_imported": Ledger.require_imported,
    "source_table": Ledger.source_table,
    "sources": Ledger.sources,
    "stored": Ledger.stored,
}
ALIKE = ("import_ended", "require_imported")
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
    ours.create_dataset("photos", None)
    theirs.create_dataset("photo-album", None)
    for name in ("photoss", "Photos"):
        with pytest.raises(UnknownDataset, match=rf"'{name}' \(did you mean 'photos'\?\); create"):
            ours.dataset(name)
        with pytest.raises(UnknownDataset, match=r"'photoss' \(did you mean 'photos'\?\)"):
            ours.source_table("photoss")
    # Another tenant's name is told to nobody.
    with pytest.raises(UnknownDataset, match="no dataset is named 'photo-albumm'; create"):
        ours.dataset("photo-albumm")


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


def ended_run(ledger: Ledger) -> str:
    """A run with a result, a decision and a child."""
    run_id = create_run(ledger, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.finish(item.id, item.fence, done())
    ledger.add_shift_decision(run_id, DECISION)
    ledger.create_run(
        kind="stress-test", dataset="demo", config=config(), items=[], fingerprint="f", parent=run_id
    )  # fmt: skip
    return run_id


def answered(ledger: Ledger, verb: str, run_id: str) -> tuple[str, str]:
    """What a verb comes to for a run, without the run's id."""
    given = ASKED[verb](run_id) if verb in ASKED else {}
    kind, told = outcome(lambda: getattr(ledger, verb)(run_id, **given))
    return kind, told.replace(run_id, "<id>")


@pytest.mark.fault("T4")
def test_no_verb_finds_a_run_of_another_tenant(ours: Ledger, theirs: Ledger) -> None:
    assert len(OF_RUNS) > 20
    for verb in OF_RUNS:
        foreign = ended_run(ours)
        before = ours.run(foreign)
        assert answered(theirs, verb, foreign) == answered(theirs, verb, NEVER), verb
        assert ours.run(foreign) == before, verb
        # Or the verb would tell nothing of any run, and this would show nothing.
        assert verb == "of_run" or answered(ours, verb, foreign) != answered(ours, verb, NEVER), verb


@pytest.mark.fault("T4")
def test_no_verb_finds_a_dataset_of_another_tenant(ours: Ledger, theirs: Ledger) -> None:
    named = {
        verb for verb, call in inspect.getmembers(Ledger, inspect.isfunction)
        if not verb.startswith("_") and "name" in list(inspect.signature(call).parameters)[1:2]
    }  # fmt: skip
    assert named - {"create_dataset"} == OF_DATASETS.keys()
    for verb, asked in OF_DATASETS.items():
        name = verb.replace("_", "-")
        ours.create_dataset(name, ["sled"])
        ours.add_sources(name, [source("a")])
        foreign, never = outcome(partial(asked, theirs, name)), outcome(partial(asked, theirs, "none"))
        assert foreign == (never[0], never[1].replace("none", name)), verb
        assert verb in ALIKE or outcome(partial(asked, ours, name)) != never, verb
    theirs.create_dataset("pets", None)
    # The key of another tenant's dataset is no name.
    with pytest.raises(UnknownDataset):
        ours.dataset("acme/pets")


def test_two_tenants_use_one_name_and_keep_their_quotas(ours: Ledger, theirs: Ledger, ledger: Ledger) -> None:
    seen: list[int] = []
    for mine, letter in ((ours, "a"), (theirs, "b")):
        mine.create_dataset("pets", None, seen.append)
        mine.add_sources("pets", [source(letter)])
        assert [one.image for one in mine.sources("pets")] == [letter * 64]
        assert [one.name for one in mine.dataset_list()] == ["pets"]
        assert mine.stored("pets").all_images == 1
    assert seen == [1, 1]
    assert [one.name for one in ledger.dataset_list()] == ["acme/pets", "pets"]
    assert theirs.is_source_image("b" * 64)
    assert not theirs.is_source_image("a" * 64)
    longest = theirs.of("a" * 48).create_dataset("b" * 96, None)
    assert longest.name == "b" * 96


def test_lists_have_the_tenants_own_and_cursors_belong_to_it(ours: Ledger, theirs: Ledger) -> None:
    mine = [create_run(theirs) for _ in range(3)]
    create_run(ours)
    page = theirs.run_list(limit=2)
    assert {run.id for run in page.runs} <= set(mine)
    assert len(theirs.run_list(after=page.after).runs) == 1
    with pytest.raises(InvalidRequest):
        ours.run_list(after=page.after)
    with pytest.raises(NotFound):
        theirs.create_run(
            kind="stress-test", dataset="demo", config={}, items=[], fingerprint="f",
            parent=ours.run_list().runs[0].id,
        )  # fmt: skip


def test_a_deleted_run_is_remembered_to_its_own_tenant_alone(ours: Ledger, theirs: Ledger) -> None:
    run_id = create_run(ours)
    ours.cancel(run_id)
    ours.delete_run(run_id)
    with pytest.raises(NotFound, match="was deleted"):
        ours.run(run_id)
    with pytest.raises(NotFound, match="no run has the id"):
        theirs.run(run_id)


def test_idempotency_keys_are_the_tenants_own(ours: Ledger, theirs: Ledger) -> None:
    first, second = create_run(ours, key="once"), create_run(theirs, key="once")
    assert first != second
    assert (ours.run_for_key("once", "f" * 64), theirs.run_for_key("once", "f" * 64)) == (first, second)
    assert ours.claim("datasets", "k", "one") is None
    assert theirs.claim("datasets", "k", "two") is None
    with pytest.raises(IdempotencyConflict):
        theirs.claim("datasets", "k", "three")


def test_jobs_and_webhooks_are_the_tenants_own(ours: Ledger, theirs: Ledger, ledger: Ledger) -> None:
    made = theirs.create_job(
        cluster="gpus", workers=1, kind="stress-test", request={"dataset": "pets"}, fingerprint="f",
        idempotency_key="once",
    )  # fmt: skip
    hook = theirs.create_webhook(WebhookCreate(url="https://hooks.example.com/a"))
    assert (ours.job_list().jobs, ours.webhooks().webhooks) == ([], [])
    assert ours.job_for_key("once", "other") is None
    for asked in (ours.job, ours.begin_cancelling_job):
        with pytest.raises(NotFound, match="no job"):
            asked(made.id)
    for of_hook in (ours.webhook, ours.delete_webhook):
        with pytest.raises(NotFound):
            of_hook(hook.id)
    ledger.put_off(made, 0.0)
    leased = ledger.lease_job(("gpus",), 30.0)
    assert leased is not None
    assert leased.tenant == "acme"
    attempt = ledger.claim_attempt(leased)
    assert ledger.job_news(made.id, attempt.number).dataset == "acme/pets"


def test_a_webhook_is_told_of_its_own_tenants_runs_alone(
    ours: Ledger, theirs: Ledger, ledger: Ledger
) -> None:
    hooks = [each.create_webhook(WebhookCreate(url="https://h.example.com/a")) for each in (ours, theirs)]
    run_id = create_run(theirs, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.finish(item.id, item.fence, done())
    first, second = ours.webhook(hooks[0].id), theirs.webhook(hooks[1].id)
    assert (first.deliveries, [one.run_id for one in second.deliveries]) == ([], [run_id])


@pytest.mark.fault("B62")
def test_a_blob_is_of_whoever_has_an_object_that_names_it(
    ours: Ledger, theirs: Ledger, ledger: Ledger
) -> None:
    theirs.create_dataset("pets", None)
    theirs.add_sources("pets", [source("b")])
    theirs.keep_blobs(["c" * 64])
    run_id = create_run(theirs, sources=1, per_source=1)
    (item,) = lease(ledger).items
    ledger.finish(item.id, item.fence, done("d" * 64))
    for letter in "abcd":
        assert theirs.holds(letter * 64), letter
        assert not ours.holds(letter * 64), letter
        assert ledger.holds(letter * 64), letter
    ours.keep_blobs(["d" * 64])
    theirs.delete_run(run_id)
    assert [letter for letter in "abcd" if theirs.holds(letter * 64)] == ["b", "c"]
    assert ours.holds("d" * 64)


def test_a_quota_is_of_the_tenant(ours: Ledger, theirs: Ledger) -> None:
    def refuse(number: int) -> None:
        if number > 1:
            raise QuotaExceeded("too many")

    ours.create_dataset("pets", None, refuse)
    theirs.create_dataset("pets", None, refuse)
    with pytest.raises(QuotaExceeded):
        theirs.create_dataset("cars", None, refuse)
