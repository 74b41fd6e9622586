"""The seeds of images and orders that the gateway derives from names, pinned by value at their call sites.

A pin changes only in a commit that says which images change and why: whoever renames a word that is hashed
draws other images than those on record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from counterpose_core.contract.adversarial_datasets import AdversarialPhase
from counterpose_core.contract.bug_hunts import DescriptionsCreate, HuntPhase
from counterpose_core.contract.dataset_interfaces import ImagesCreate
from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.packing import pack
from counterpose_core.types import EDIT_TYPES, Estimate, ItemKind
from counterpose_gateway.ledger.datasets import sources as new_sources
from counterpose_gateway.methods.adversarial_dataset import items as adversarial_items
from counterpose_gateway.methods.adversarial_dataset import summary as adversarial_summary
from counterpose_gateway.methods.bug_hunt import measurement, measuring, mixture, samples, varied
from counterpose_gateway.methods.dataset_interface import learning, plan, process
from counterpose_gateway.methods.shift_benchmark import images
from counterpose_gateway.methods.stress_test import division, groups
from counterpose_gateway.methods.stress_test.confirm import captioned
from counterpose_gateway.methods.stress_test.screen import draws, items, lance_r, proposals
from counterpose_gateway.methods.stress_test.transforms.severity import image_answers as severity
from counterpose_gateway.records.items import LeasedGroup, LeasedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.runs import seeds
from counterpose_gateway.steps import estimator, examples, image_distances
from fakes.hunted_items import hunt_config
from fakes.interface_answers import a_config
from fakes.ports import fake_services
from fakes.runs import stress_test_request
from fakes.seeded_calls import Asked, asked_of, derived, generators
from fakes.world import FakeWorld

Site = Callable[[], object]
Named: Any = SimpleNamespace
SEED = 3
CREATE = Named(seed=SEED, n=2)
CONFIG = Named(request=CREATE, generation=Named(request=list), policy_words=(), tokens={}, shifts=[])
SLED = Named(label="sled", slot=2, item_group="source-a")
OFF = "a photo of a sled"


async def _ask(*request: Any, **_: Any) -> Any:
    """Stand for a service, or for the calls of an attempt."""
    asked = request[-1]
    raise Asked([each.seed for each in (asked if isinstance(asked, list) else asked.items)])


CONTEXT: Any = Named(suite=Named(name="fake"), services=Named(editor=Named(generate=_ask)))
SERVICES: Any = Named(editor=Named(generate=_ask), perturber=Named(perturb=_ask))
CALLS: Any = Named(ask=_ask, services=SERVICES)
SUBJECT: Any = Named(config=CONFIG, source=SLED, caption=OFF, label="sled")


def each(names: Iterable[str], site: Callable[[str], int]) -> dict[str, int]:
    return {name: site(name) for name in names}


def _told(phase: str) -> Any:
    return Named(phase=phase, prompt="a sled in fog")


def _item(kind: str) -> LeasedItem:
    values: dict[str, Any] = {"kind": kind, "item_group": "source-a", "source_image": "b" * 64}
    return LeasedItem(
        item_key=kind, ordinal=0, label="sled", slot=0, instruction={"draw": 1}, id=kind, fence=1, attempt=1,
        **values,
    )  # fmt: skip


def noise_of_kinds() -> dict[str, int]:
    """The seed of a stress test's draw, for every kind of item."""
    listed = [_item(kind) for kind in get_args(ItemKind)]
    group = LeasedGroup(run_id="run", kind="stress-test", config={}, item_group="source-a", items=listed)

    class Config(Named):  # type: ignore[misc]  # of any type
        def model_copy(self, *, update: dict[str, Any]) -> Any:
            return update["preset"].seed

    found = draws.by_noise(group, Config(redraw=PromptToPromptPreset(steps=20), request=CREATE))
    return {part.items[0].kind: seed for part, seed in found}  # type: ignore[misc]  # the copy is a seed


def follow_up() -> int:
    """The seed of the run that measures descriptions of a hunt's."""
    parent = Named(id="run", state="completed", resolved_config=hunt_config().model_dump(mode="json"))
    ledger = Named(runs=Named(children=lambda _: [1, 2]))
    create = DescriptionsCreate(descriptions=["a fly in fog"])
    return asyncio.run(measurement._request(parent, create, Named(ledger=ledger))).seed


def preview() -> list[int]:
    config = Named(resolved_config=a_config().model_dump(mode="json"))
    ledger = Named(
        access=Named(claim=lambda *_: None, settle=lambda *_: None), runs=Named(get=lambda *_: config)
    )
    body = ImagesCreate(class_name="plate", n=2, by_name=True, seed=SEED)
    return asked_of(
        lambda: learning.generate("run", body, Named(ledger=ledger, services=SERVICES), seconds=1.0)
    )


def edits_of_captions() -> list[int]:
    return asked_of(lambda: varied.edited(CALLS, [(SLED, OFF)], SEED))


def mixed() -> list[int]:
    create = Named(labels=["sled"], seed=SEED, mixture=Named(components=[Named(prompt="a <class> in fog")]))
    return [each.asked.seed for each in mixture.examples_of_mixture(create, ["sled"])]


def held_out() -> list[int]:
    own = Named(label="sled", prompt="a sled in fog")
    return [each.asked.seed for each in measuring.examples_of_own([own], SEED)]


def first_images() -> list[int]:
    prompts = {"sled": OFF, "boat": "a photo of a boat"}
    return [each.asked.seed for each in examples.examples_of(prompts, dict.fromkeys(prompts, ""), SEED)]


def of_shift() -> list[int]:
    config = Named(**vars(CONFIG) | {"shifts": [Named(prompt="a photo of a <class>")]})
    cell = Named(class_name=lambda _: "sled", image_source="class-name", condition=0)
    return [asked.seed for asked in images.prompts(config, cell, [Named(slot=0), Named(slot=5)])]


def _observation(number: int) -> Any:
    return Named(
        source=f"source-{number}", unit=f"source-{number}", stage=1, caption=OFF, label="sled", kind="caption"
    )


def wordings() -> list[int]:
    """The places of captioned sources in the order of the seed."""
    config = Named(request=CREATE, redraw=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captioned, "reworded", lambda *_: "a sled")
        change = Named(object_class="sled", removed="red", added="blue")
        asked = Named(removed="red", added="blue")
        listed = [_observation(number) for number in range(3)]
        return derived(captioned, lambda: captioned.CaptionedSources(config, listed).fresh(change, [asked]))


def proposed() -> dict[str, int]:
    slots = [*(proposals.Slot(kind, 1, 2) for kind in EDIT_TYPES), proposals.Slot(None, 0, 2)]
    asked = [proposals._ask(slot, SUBJECT) for slot in slots]
    return {item.perturbation_type: item.seed for item in asked}


def baseline_orders() -> list[object]:
    request = Named(seed=SEED, lance_r_edits_per_image=2)
    subject = Named(**vars(SUBJECT) | {"config": Named(request=request)})
    return generators(lambda: lance_r._tries(subject))


def baseline_words() -> int:
    attempted = Named(slot=1, place=Named(position=4))
    seed = lance_r._ask(SUBJECT, attempted).seed
    assert seed is not None
    return seed


def rates() -> list[object]:
    recorded = Named(by_caption={}, config=CONFIG, selection=Named(kept=[]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            adversarial_summary, "_baseline", lambda *_: Estimate(estimate=None, low=None, high=None, n=0)
        )
        return generators(lambda: adversarial_summary._failures(recorded, "model"))


def set_distances() -> list[object]:
    shown = Named(result=Named(features=FeatureVector.of([1.0, 0.0])))
    config = Named(request=CREATE, clip="clip")
    recorded = Named(selection=Named(kept=[shown]), of_phase=lambda _: [shown], config=config)
    return generators(lambda: adversarial_summary._distances(recorded))


def distances() -> list[object]:
    one = [FeatureVector.of([1.0, 0.0])]
    measure = partial(image_distances.image_distances, one, {"kept": one}, network="clip", seed=SEED)
    return generators(measure)


def upload() -> str:
    """The id of an image in a dataset: it is among the names of a stress test's seeds."""
    source = NewSource(image="c" * 64, label="sled", filename="1.png", caption=None, width=64, height=64)
    identity: str = new_sources._new_row("demo", 0, source, occurrence=1)["id"]
    return identity


def stored() -> str:
    """The name of an image in the store: it is hashed into its id, and into the noise of its edits."""
    return pack(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).ref


def copies() -> list[str | None]:
    """The group of equal images: it is, too."""
    world = FakeWorld()
    first, second = world.sources(2, ("plate",))
    alike = {"image": first.image}
    listed = [one.model_copy(update=alike | {"id": name * 64}) for one, name in ((first, "d"), (second, "e"))]
    table = SourceTable.of(listed)
    found, _ = asyncio.run(groups.group_sources(stress_test_request(), table, fake_services(world)))
    return [source.group for source in found]


def severity_shares() -> None:
    """What becomes of two images of an adaptive run, one of them of a group."""
    plan = Named(is_adaptive=True, severity=Named(full_share=0.1))
    config = Named(transforms=plan, groups={"b": "group"}, request=CREATE)
    for source in ("a", "b"):
        severity.share(config, source)


def chosen_tokens() -> list[int]:
    preset = Named(templates=Named(prompts=[OFF]))
    state, offer = Named(item=SLED, prompts=[]), Named(bundle=None)
    asked = process._asked(Named(request=CREATE, preset=preset), state, offer)
    return [item.seed for item in asked[:2]]


def validated_tokens() -> list[int]:
    return [item.seed for item in process._asked_of_token(CONFIG, "sled", None)[:2]]


ONE = np.ones(1)
SITES: dict[str, Site] = {
    "derive_seed": lambda: [
        seeds.derive_seed(SEED), seeds.derive_seed(0, "a"), seeds.derive_seed(SEED, "a", 1),
        seeds.derive_seed(SEED, "1"), seeds.derive_seed(SEED, 1), seeds.derive_seed(2**63 - 1, "é", -1),
    ],
    "image_seed": lambda: [
        seeds.image_seed(SEED, "sled", 0), seeds.image_seed(SEED, "sled", 1), seeds.image_seed(0, "boat", 0),
    ],
    "adversarial_dataset/items": lambda: each(
        get_args(AdversarialPhase), lambda phase: adversarial_items.sample_seed(CONFIG, SLED, _told(phase))
    ),
    "adversarial_dataset/summary rates": rates,
    "adversarial_dataset/summary distances": set_distances,
    "bug_hunt/samples": lambda: each(
        get_args(HuntPhase), lambda phase: samples.sample_seed(CONFIG, SLED, _told(phase))
    ),
    "bug_hunt/measurement": follow_up,
    "bug_hunt/measuring": held_out,
    "bug_hunt/mixture": mixed,
    "bug_hunt/varied": edits_of_captions,
    "dataset_interface/generate": preview,
    "dataset_interface/plan": lambda: derived(
        plan, lambda: plan._compared(SEED, {"plate": ["a"], "boat": ["b"]})
    ),
    "dataset_interface/token_selection images": chosen_tokens,
    "dataset_interface/token_selection mean": lambda: generators(lambda: process._mean(ONE, SEED)),
    "dataset_interface/validation images": validated_tokens,
    "dataset_interface/validation mean": lambda: generators(lambda: process._validated(ONE, SEED)),
    "images/packing": stored,
    "ledger/new_sources": upload,
    "runs/estimator": lambda: generators(lambda: estimator.Estimator(SEED).generator("a/b")),
    "runs/examples": first_images,
    "runs/image_distances": distances,
    "shift_benchmark/images": of_shift,
    "stress_test/captioned": wordings,
    "stress_test/division": lambda: derived(division, lambda: division.in_drawn_order(["a", "b"], SEED)),
    "stress_test/draws": noise_of_kinds,
    "stress_test/groups": copies,
    "stress_test/severity": lambda: derived(severity, severity_shares),
    "stress_test/items": lambda: generators(
        lambda: items.slots_per_type(stress_test_request(seed=SEED, max_edits_per_image=7), "source-a")
    ),
    "stress_test/lance_r orders": baseline_orders,
    "stress_test/lance_r words": baseline_words,
    "stress_test/proposals": proposed,
}  # fmt: skip

PINS: dict[str, object] = {
    "derive_seed": [
        2_325_565_506_498_296_903,
        1_391_306_317_013_587_228,
        8_865_975_073_641_263_893,
        1_420_582_607_932_204_102,
        6_428_790_072_769_500_949,
        3_034_866_219_641_690_799,
    ],
    "image_seed": [6_783_543_172_021_057_923, 8_262_378_129_951_679_120, 8_665_646_120_137_860_979],
    "adversarial_dataset/items": {
        "seed": 3_559_440_372_752_389_968,
        "baseline": 7_197_469_303_150_571_157,
        "sample": 3_559_440_372_752_389_968,
        "reference": 3_559_440_372_752_389_968,
    },
    "adversarial_dataset/summary rates": [5_088_377_423_661_802_615],
    "adversarial_dataset/summary distances": [
        1_276_648_148_010_882_251,
        404_516_573_826_086_560,
        9_076_693_134_716_000_255,
        5_205_845_967_893_732_786,
        8_053_138_462_544_073_606,
        401_266_658_048_914_211,
        263_872_418_246_832_570,
        2_029_892_187_345_971_928,
    ],
    "bug_hunt/samples": {
        "baseline": 7_197_469_303_150_571_157,
        "clusters": 8_076_329_975_082_172_178,
        "captions": 6_774_910_987_770_875_866,
        "varied": 8_139_309_085_711_982_875,
        "combination": 6_775_167_344_405_109_677,
        "hypothesis": 4_749_643_628_466_322_870,
        "refinement": 2_927_968_042_921_571_474,
        "photographs": 4_106_660_114_950_074_378,
        "held-out": 3_428_095_593_059_593_013,
        "mentions": 6_687_292_385_014_228_177,
        "pilot": 1_600_551_270_777_489_107,
        "mixture": 8_972_746_584_223_677_284,
    },
    "bug_hunt/measurement": 7_679_731_213_775_561_485,
    "bug_hunt/measuring": [8_547_271_259_990_634_524],
    "bug_hunt/mixture": [4_210_838_278_768_529_698],
    "bug_hunt/varied": [
        8_928_101_227_383_670_499,
        8_395_775_181_560_207_928,
        8_292_262_672_307_838_158,
        7_101_087_358_250_085_479,
        2_817_783_939_817_968_449,
    ],
    "dataset_interface/generate": [2_588_502_565_851_883_251, 519_442_653_472_529_436],
    "dataset_interface/plan": [1_549_653_181_212_870_644, 2_170_537_600_723_605_103],
    "dataset_interface/token_selection images": [6_121_172_061_245_920_152, 2_520_960_306_981_741_700],
    "dataset_interface/token_selection mean": [851_690_999_465_912_353],
    "dataset_interface/validation images": [6_783_543_172_021_057_923, 8_262_378_129_951_679_120],
    "dataset_interface/validation mean": [8_030_480_846_249_700_341],
    "images/packing": "9058f069eb3747e6bc222859aace5f22c6d7baaa8b198439bb3a9faf6b721d1b",
    "ledger/new_sources": "d023bb58176c9aabdafd96cf8813717f77fd3c24e99f4ee0bb2ee9898f094a8f",
    "runs/estimator": [8_708_091_299_134_765_063],
    "runs/examples": [6_783_543_172_021_057_923, 5_218_758_092_429_307_601],
    "runs/image_distances": [
        1_276_648_148_010_882_251,
        404_516_573_826_086_560,
        9_076_693_134_716_000_255,
        5_205_845_967_893_732_786,
    ],
    "shift_benchmark/images": [6_783_543_172_021_057_923, 5_598_418_977_706_836_465],
    "stress_test/captioned": [
        642_640_018_398_574_865,
        1_550_029_016_732_153_580,
        1_812_724_497_709_409_797,
    ],
    "stress_test/division": [991_581_110_255_036_144, 4_880_902_300_756_646_466],
    "stress_test/draws": {
        "edit": 8_335_260_878_273_629_344,
        "reconstruction": 4_330_079_108_447_953_206,
        "placebo": 6_889_543_440_790_062_599,
        "lance-r": 4_477_308_800_177_822_523,
        "intervention": 8_389_998_510_497_097_624,
        "caption": 7_507_428_533_019_025_818,
        "confirmation": 76_569_493_288_899_522,
        "token": 6_789_267_429_601_243_102,
        "image": 893_600_523_610_144_366,
        "sample": 6_382_939_756_558_792_502,
        "clustering": 6_158_116_661_250_037_814,
        "combination": 3_453_603_613_520_284_753,
        # Made by recipes, whose seed is the run's: nothing is drawn of it here.
        "transforms": 7_128_106_280_117_328_459,
    },
    "stress_test/groups": ["alike-dddddddddddd", "alike-dddddddddddd"],
    "stress_test/severity": [6_150_107_847_990_666_517, 7_003_112_056_353_508_298],
    "stress_test/items": [286_206_360_174_607_712],
    "stress_test/lance_r orders": [7_283_160_577_477_235_886, 2_345_054_843_302_351_931],
    "stress_test/lance_r words": 1_332_217_939_523_603_178,
    "stress_test/proposals": {
        "subject": 7_804_133_985_753_144_999,
        "object": 1_988_632_687_568_801_730,
        "background": 7_739_322_385_162_849_607,
        "adjective": 666_641_275_096_733_868,
        "domain": 7_280_007_087_588_676_889,
        "placebo": 6_186_766_312_994_986_239,
    },
}


@pytest.mark.parametrize("site", SITES)
def test_a_site_derives_the_seeds_on_record(site: str) -> None:
    assert SITES[site]() == PINS[site]
