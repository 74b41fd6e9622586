"""A server that does not repeat an image by its seed: the summary says so, and exports promise nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.runs import Item
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.export import counterfactual_records
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.methods.stress_test.spending import most_spent
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.source_table import SourceTable
from fakes.ports import fake_services
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config
from fakes.runs import stress_test_request
from fakes.suite_servers import images_suite
from fakes.world import FakeWorld, fake_dataset

PRESET = ImagesApiPreset(backend="images-api", seeded=True, seed=5)
SERVED = ServedImage(
    server="images.example", model="editor-1", seed=7, answer="a" * 64, size=(8, 8), seconds=1.0
)


def served(item: Item, repeats: bool | None) -> Item:
    """The item as a server makes it."""
    assert item.result is not None
    made = SERVED.model_copy(update={"seed_repeats": repeats if item.kind == "reconstruction" else None})
    known = {"served": made, "preset": PRESET, "models": {"editor": f"editor-1@{'a' * 64}"}}
    return item.model_copy(update={"result": item.result.model_copy(update=known)})


def summed_up(repeats: bool | None) -> tuple[StressTestSummary, list[Item]]:
    ledgered = Ledgered()
    ledgered.stress(["one", "two", "three"], {"background": {"steady": 0.9, "leaning": 0.2}})
    items = [served(item, repeats) for item in ledgered.items]
    return summarize(recorded_run(fake_config(), items), items), items


def test_each_control_of_such_a_server_is_counted_and_the_summary_warns() -> None:
    made, _ = summed_up(repeats=False)
    assert made.unrepeated_seeds == 3
    [warning] = made.warnings
    assert warning.startswith("the server made another image for the same seed, as at least one control ")
    assert warning in str(made).splitlines()


@pytest.mark.parametrize("repeats", [True, None])
def test_of_another_server_nothing_is_said(repeats: bool | None) -> None:
    made, _ = summed_up(repeats)
    assert made.warnings == []
    assert "unrepeated_seeds" not in made.model_dump()


@pytest.mark.parametrize("repeats", [True, False])
def test_an_export_tells_a_seed_that_repeats_an_image_from_one_that_does_not(repeats: bool) -> None:
    records = list(counterfactual_records(*summed_up(repeats)))
    assert records
    assert {(record.repeatable, record.seed) for record in records} == {(repeats, 7 if repeats else None)}


async def test_an_estimate_counts_the_question_that_checks_the_seed() -> None:
    world, suite = FakeWorld(), images_suite("http://127.0.0.1:9/v1")
    sources = world.sources(2)
    prepared = await prepare_stress_test(
        stress_test_request(confirm=False),
        dataset=fake_dataset(len(sources)),
        sources=SourceTable.of(sources),
        suite=suite,
        services=fake_services(world),
    )
    seeded = replace(prepared, config=prepared.config.model_copy(update={"preset": PRESET}))
    plain, more = most_spent(prepared, suite), most_spent(seeded, suite)
    assert plain is not None
    assert more is not None
    assert more.services["editor"].images == plain.services["editor"].images + len(sources)
