"""The seeds that the services derive from names and digests, pinned by value at their call sites.

A pin changes only in a commit that says which images or texts change and why. Seeds are pinned exactly, drawn
noise only to the tolerance of float32: processors may round it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import torch

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing import training_task
from counterpose_core.editing.generate import noise_of_each_step, starting_noise
from counterpose_core.types import EDIT_TYPES, PerturbationType
from counterpose_miniature.training.rendered import step_generator
from counterpose_services.editor.edits import settings
from counterpose_services.perturber import collect
from counterpose_services.perturber.language_model import Row
from counterpose_services.perturber.prompts import INSTRUCTIONS, OURS, PromptStyle
from counterpose_services.perturber.sampling import draws

IMAGES = ("a" * 64, "0123456789abcdef" * 4)
SHAPE = (1, 2, 2)
STREAM = training_task.SampleStream(
    seed=3, key="sled", images=5, templates=4, timesteps=1000, batch=2, flip=0.5
)
CAPTIONS = [f"a dog number {number}" for number in range(6)]
Site = Callable[[], object]


def noise_of_images() -> list[int]:
    """The seeds of the noise that images are inverted from."""
    made = list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "starting_noise", lambda seeds, _: made.extend(seeds))
        settings.image_noise(PromptToPromptPreset(steps=20, seed=3), IMAGES, SHAPE)
    return made


def orders() -> dict[str, list[int]]:
    """The order in which each instruction of the collector takes captions."""
    kinds: tuple[PerturbationType, ...] = (*EDIT_TYPES, "placebo")
    return {
        instruction.name: [
            next(number for number, caption in enumerate(CAPTIONS) if caption in text)
            for text in collect._order(CAPTIONS, instruction, 3)
        ]
        for kind in kinds
        for instruction in INSTRUCTIONS[kind]
    }


def prompted() -> dict[str, list[int]]:
    """The seeds of rows of each type: they hash the whole prompt."""
    kinds: tuple[PerturbationType, ...] = (*EDIT_TYPES, "placebo")
    return {
        f"{style} {kind}": [Row(prompt, 3, 0).number for prompt in OURS.asked(style, kind, "a red sled")]
        for style in get_args(PromptStyle)
        for kind in kinds
    }


def purposes() -> list[int]:
    """The seeds of the streams of samples and noise, in the order in which they are made."""
    made, stream = list[int](), training_task.SampleStream._stream

    def noted(each: training_task.SampleStream, purpose: str, number: int) -> torch.Generator:
        generator = stream(each, purpose, number)
        made.append(generator.initial_seed())
        return generator

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_task.SampleStream, "_stream", noted)
        STREAM.samples(0)
        STREAM.noise(7, SHAPE)
    return made


SITES: dict[str, Site] = {
    "editor image_noise": noise_of_images,
    "editor training": purposes,
    "perturber rows": lambda: [
        Row([1, 22, 3], 3, 0).number, Row([1, 22, 3], 3, 1).number, Row("a red sled", 3, 0).number,
        Row(({"role": "user", "content": "a red sled"},), 3, 0).number,
    ],
    "perturber prompts": prompted,
    "perturber collect": orders,
    "miniature steps": lambda: [step_generator(3, 7).initial_seed()],
}  # fmt: skip

PINS: dict[str, object] = {
    "editor image_noise": [250_617_070_232_561_209, 24_087_411_506_430_830],
    "editor training": [
        3_352_205_202_453_419_316,
        860_969_337_854_251_954,
        860_969_337_854_251_954,
        8_587_068_899_075_443_510,
    ],
    "perturber rows": [
        243_762_820_917_235_671,
        5_812_852_477_241_505_089,
        2_511_480_161_312_711_718,
        2_946_929_973_310_405_172,
    ],
    "perturber prompts": {
        "instruction subject": [3_412_209_015_055_207_552],
        "instruction object": [1_815_839_222_657_757_841],
        "instruction background": [5_589_131_407_893_339_672, 2_234_545_595_711_383_297],
        "instruction adjective": [5_917_354_045_615_092_840],
        "instruction domain": [9_122_578_181_931_809_668],
        "instruction placebo": [2_255_837_611_468_409_452],
        "compact subject": [7_568_139_138_918_510_690],
        "compact object": [7_004_432_293_021_411_302],
        "compact background": [116_496_420_802_439_864],
        "compact adjective": [6_721_041_172_084_062_684],
        "compact domain": [6_813_270_960_440_935_479],
        "compact placebo": [4_698_324_541_484_214_205],
        "chat subject": [6_764_956_395_610_387_708],
        "chat object": [708_910_977_432_041_003],
        "chat background": [7_094_475_785_706_248_738, 5_435_267_018_745_229_306],
        "chat adjective": [8_692_504_211_654_838_023],
        "chat domain": [4_987_624_371_163_303_081],
        "chat placebo": [8_374_600_554_389_925_503],
    },
    "perturber collect": {
        "subject": [5, 4, 1, 2, 0, 3],
        "object": [4, 5, 3, 2, 0, 1],
        "place": [4, 0, 2, 3, 5, 1],
        "weather": [4, 5, 3, 1, 2, 0],
        "adjective": [1, 3, 2, 5, 0, 4],
        "domain": [5, 2, 4, 1, 0, 3],
        "placebo": [2, 1, 0, 5, 4, 3],
    },
    "miniature steps": [3_000_016],
}


@pytest.mark.parametrize("site", SITES)
def test_a_site_derives_the_seeds_on_record(site: str) -> None:
    assert SITES[site]() == PINS[site]


NOISE: dict[str, Callable[[], torch.Tensor]] = {
    "starting": lambda: starting_noise([3, 2**62], SHAPE),
    "each step": lambda: noise_of_each_step([3], 2, SHAPE),
    "training": lambda: STREAM.noise(0, SHAPE),
    "perturber": lambda: draws(Row("a red sled", 3, 0), 3),
}
DRAWN: dict[str, list[float]] = {
    "starting": [0.803276, 0.174833, 0.088978, -0.613718, 1.540996, -0.293429, -2.178789, 0.568431],
    "each step": [0.803276, 0.174833, 0.088978, -0.613718, 0.046182, -1.368259, 0.337495, 1.011116],
    "training": [-0.5385, 0.884447, -0.587709, 1.28191, 0.214199, 0.041375, 0.566996, -1.101941],
    "perturber": [0.459233, 0.951427, 0.175188],
}


@pytest.mark.parametrize("name", NOISE)
def test_a_seed_draws_the_noise_on_record(name: str) -> None:
    assert NOISE[name]().flatten().tolist() == pytest.approx(DRAWN[name], abs=1e-5)
