"""What a stress test plans, and which requests it refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import ClassMapMismatch, DatasetEmpty, InvalidRequest, UnknownModel
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.plan import choose_sources, prepare_stress_test
from counterpose_gateway.methods.stress_test.screen.items import slots_per_type
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.runs.seeds import derive_seed
from fakes.ports import FakeClassifiers, fake_services
from fakes.runs import planned, stress_test_request
from fakes.world import CLASSES, FakeWorld, fake_dataset


@pytest.mark.paper("LANCE-A1-1-inputs")
async def test_each_source_gets_its_edits_a_reconstruction_and_a_placebo() -> None:
    world = FakeWorld()
    config, items = await planned(world.sources(2), fake_services(world))
    kinds = Counter((item.item_group, item.kind) for item in items)
    assert set(kinds.values()) == {1, 5}
    assert len(items) == 8 * 7
    assert [item.ordinal for item in items] == list(range(56))
    assert len({item.item_key for item in items}) == 56
    assert PromptToPromptPreset.of(config.editing).steps == 20
    assert config.classes == list(CLASSES)


async def test_item_keys_do_not_depend_on_the_order_of_sources() -> None:
    world = FakeWorld()
    sources, services = world.sources(3), fake_services(world)
    _, first = await planned(sources, services)
    _, second = await planned(sources[::-1], services)
    assert first == second


@pytest.mark.parametrize("change", [{"seed": 4}, {"selection": "released"}, {"preset": "lance"}])
async def test_changing_an_input_changes_every_item_key(change: dict[str, object]) -> None:
    world = FakeWorld()
    sources, services = world.sources(1), fake_services(world)
    _, before = await planned(sources, services)
    _, after = await planned(sources, services, redraw=None, **change)
    assert not {item.item_key for item in before} & {item.item_key for item in after}


@pytest.mark.parametrize(("limit", "counts"), [(4, [1, 1, 1, 1]), (6, [2, 2, 1, 1]), (99, [3, 3, 3, 3])])
def test_a_limit_is_spread_evenly_over_the_classes(limit: int, counts: list[int]) -> None:
    chosen = choose_sources(SourceTable.of(FakeWorld().sources(3)), CLASSES, limit)
    assert sorted(Counter(source.label for source in chosen).values(), reverse=True) == counts


def test_a_small_class_leaves_its_share_to_others() -> None:
    world = FakeWorld()
    sources = [world.source("sled", 0), *(world.source("boat", number) for number in range(5))]
    chosen = choose_sources(SourceTable.of(sources), CLASSES, 4)
    assert Counter(source.label for source in chosen) == {"sled": 1, "boat": 3}


def test_an_image_listed_twice_is_one_source() -> None:
    source = FakeWorld().source("sled", 0)
    chosen = choose_sources(SourceTable.of([source, source]), CLASSES, None)
    assert [each.id for each in chosen] == [source.id]


@pytest.mark.paper("LANCE-A1-9-split")
def test_edits_are_split_evenly_and_the_remainder_varies_by_source() -> None:
    create = stress_test_request(max_edits_per_image=7)
    splits = [slots_per_type(create, str(source)) for source in range(400)]
    assert all(sum(split.values()) == 7 and set(split.values()) == {1, 2} for split in splits)
    favours = Counter(edit_type for split in splits for edit_type, slots in split.items() if slots == 2)
    assert all(120 < number < 200 for number in favours.values())
    assert slots_per_type(create, "x") == slots_per_type(create, "x")


def test_fewer_edits_than_types_skip_some_types() -> None:
    split = slots_per_type(stress_test_request(max_edits_per_image=2), "x")
    assert sorted(split.values()) == [0, 0, 0, 1, 1]


def test_derived_seeds_differ_by_every_name() -> None:
    seeds = [derive_seed(seed, *names) for seed in (0, 1) for names in (("a", 0), ("a", 1), ("b", 0), ("a",))]
    assert len(set(seeds)) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.fault("B47")
async def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(DatasetEmpty, match="'demo'"):
        await planned([], fake_services(FakeWorld()))


async def test_an_unknown_preset_is_refused_listing_the_known_ones() -> None:
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match=r"'slow'.*lance.*quick") as caught:
        await planned(world.sources(1), fake_services(world), preset="slow")
    assert caught.value.pointer == "/preset"


@pytest.mark.fault("B41")
async def test_an_unknown_classifier_is_refused_listing_the_known_ones() -> None:
    world = FakeWorld()
    with pytest.raises(UnknownModel, match=r"'nobody'.*leaning, steady") as caught:
        await planned(world.sources(1), fake_services(world), classifiers=["steady", "nobody"])
    assert caught.value.pointer == "/classifiers/1"


async def test_an_unlisted_timm_model_is_tested_on_one_image() -> None:
    world = FakeWorld()
    classifiers = FakeClassifiers(world)
    services = fake_services(world, classifiers=classifiers)
    await planned(world.sources(2), services, classifiers=["timm:resnet18", "steady"])
    # And each is shown the first images once, for the baseline.
    assert classifiers.calls == {"timm:resnet18": 1 + 1, "steady": 1}
    with pytest.raises(UnknownModel):
        await planned(world.sources(1), services, classifiers=["timm:resnet19"])


class _NarrowMap(FakeClassifiers):
    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        raise ClassMapMismatch("the class map lacks 'kite'")


@pytest.mark.fault("B40")
async def test_a_dataset_class_missing_from_the_class_map_is_refused() -> None:
    world = FakeWorld()
    services = fake_services(world, classifiers=_NarrowMap(world, CLASSES[:3]))
    with pytest.raises(ClassMapMismatch, match="'kite'"):
        await planned(world.sources(1), services)


@pytest.mark.fault("B40")
async def test_a_label_that_is_not_a_dataset_class_is_refused() -> None:
    world = FakeWorld()
    with pytest.raises(ClassMapMismatch, match="'zeppelin'"):
        await planned([world.source("zeppelin", 0)], fake_services(world))


async def test_a_suite_without_perturber_cannot_run_a_stress_test() -> None:
    world = FakeWorld()
    with pytest.raises(UnknownModel, match="no perturber"):
        await prepare_stress_test(
            stress_test_request(preset="dataset-interfaces"),
            dataset=fake_dataset(1),
            sources=SourceTable.of(world.sources(1)),
            suite=load_suite("dataset-interfaces"),
            services=fake_services(world),
        )
