"""A made-up method of four stages and runs of it: planned from results, empty, and large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import func, select, text, update

from counterpose_core.contract.runs import ItemResult, Run, RunItem
from counterpose_core.types import RunKind
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.stages import StagePlan
from counterpose_gateway.worker.planner import Planner
from fakes.ledgers import IMAGE, config, planned_items
from fakes.methods import method_of

KIND: RunKind = "stress-test"
MOST_ITEMS = 1_000_000


def items_of_stage(keys: Iterable[str], per_source: int = 4) -> Iterator[PlannedItem]:
    """Edits with these keys, their ordinals counted from 0."""
    for ordinal, key in enumerate(keys):
        yield PlannedItem(
            item_key=key, ordinal=ordinal, kind="edit", edit_type="object",
            item_group=f"source-{ordinal // per_source}", source_image=IMAGE, label="sled",
        )  # fmt: skip


@dataclass
class FourStages:
    """The second stage confirms what the first one made, the third is empty, the fourth has ``many`` items.

    ``asked`` lists the stages that it was asked to plan.
    """

    many: int = 6
    asked: list[int] = field(default_factory=list)

    def next_stage(self, run: Run, results: Iterator[RunItem[ItemResult]]) -> StagePlan | None:
        """Plan the stage from the recorded results."""
        self.asked.append(run.stage + 1)
        if run.stage == 1:
            made = [item.ordinal for item in results if item.state == "done"]
            return StagePlan(items_of_stage(f"confirm-{ordinal}" for ordinal in made))
        if run.stage == 2:
            return StagePlan(())
        if run.stage == 3:
            return StagePlan(items_of_stage(f"many-{number}" for number in range(self.many)))
        return None


def create_staged_run(ledger: Ledger, *, sources: int = 2, per_source: int = 2) -> str:
    """A run in stages, with the number of sources of its first stage and of edits of each."""
    return ledger.runs.create(
        kind=KIND, dataset="demo", config=config(), items=planned_items(sources, per_source),
        fingerprint="f" * 64, staged=True,
    ).id  # fmt: skip


def planner(
    ledger: Ledger, method: FourStages, *, lease_seconds: float = 30.0, most_items: int = MOST_ITEMS
) -> Planner:
    """Return what plans stages of the method's runs."""
    methods: dict[str, AnyMethod] = {KIND: method_of(KIND, next_stage=method.next_stage)}
    return Planner(ledger, methods, lease_seconds=lease_seconds, most_items=most_items)


async def plan_one(ledger: Ledger, method: FourStages) -> bool:
    """Plan one stage; False where no run waits for one."""
    planning = planner(ledger, method)
    leased = await planning.lease()
    if leased is not None:
        await planning.plan(leased)
    return leased is not None


def stored_keys(url: str, run_id: str) -> list[tuple[int, str]]:
    """Stage and key of every item that is stored, whether its stage has opened or not."""
    items = schema.items.c
    query = select(items.stage, items.item_key).where(items.run_id == run_id).order_by(items.ordinal)
    database = Database(url)
    with database.reading() as connection:
        found = [(int(stage), str(key)) for stage, key in connection.execute(query)]
    database.close()
    return found


def finish_all_but_the_last(url: str, run_id: str) -> None:
    """Record good outcomes for a large stage at once: one by one takes minutes."""
    database = Database(url)
    result = ItemResult(image=IMAGE, caption="a sled").model_dump(mode="json")
    with database.writing() as connection:
        rows.locked_run(connection, run_id)
        mine = (schema.items.c.run_id == run_id) & (schema.items.c.state == "pending")
        last = select(func.max(schema.items.c.ordinal)).where(mine).scalar_subquery()
        done = update(schema.items).where(mine, schema.items.c.ordinal < last)
        finished = connection.execute(done.values(state="done", result=result)).rowcount
        runs = schema.runs.c
        counters = {"done": runs.done + finished, "pending": runs.pending - finished}
        connection.execute(update(schema.runs).where(runs.id == run_id).values(counters))
        # The server does so within a minute of such a change.
        connection.execute(text("ANALYZE items"))
    database.close()
