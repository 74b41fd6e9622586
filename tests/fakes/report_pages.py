"""A page of each report, with images of one colour or of noise as hard to compress as a photograph."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe
from counterpose_core.contract.runs import Item, ItemResult, TransformedImage
from counterpose_core.contract.severity import SeverityPlan
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.images.codecs import encode_raw
from counterpose_gateway.methods.dataset_interface.report import render as render_interface
from counterpose_gateway.methods.shift_benchmark.report.report import render as render_benchmark
from counterpose_gateway.methods.stress_test.report.operations import render_operations
from counterpose_gateway.methods.stress_test.report.report import render as render_stress_test
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.transforms.summary import summarize_operations
from fakes.interface_answers import a_config, a_token, an_interface_run, an_interface_summary, similarity
from fakes.recorder import recorded_run
from fakes.reported_benchmarks import reported_benchmark, reported_summary
from fakes.results import EDITED, Ledgered, fake_config, prediction

MAGENTA = (255, 0, 255)

ReadImage = Callable[[str], bytes]

_OWN = "1" * 64


def magenta(_: str) -> bytes:
    """An image that differs from everything else in a page."""
    return encode_raw(np.full((64, 64, 3), MAGENTA, dtype=np.uint8))


@lru_cache(maxsize=256)
def photograph(ref: str) -> bytes:
    """512 x 512 pixels of noise at every scale, the spectrum of photographs; each reference has its own."""
    generator = np.random.default_rng(int(ref[:8], 16))
    layers = [
        np.kron(generator.normal(0, 12, (2**power, 2**power, 3)), np.ones((2 ** (9 - power),) * 2 + (1,)))
        for power in range(2, 8)
    ]
    return encode_raw(np.clip(128 + sum(layers), 0, 255).astype(np.uint8))


def stress_test_page(image: ReadImage | None = None, sources: int = 8) -> str:
    """A stress test that fools one of two classifiers by every edit.

    Without ``image`` originals are magenta, and edits have a colour of their own.
    """
    ledgered = Ledgered()
    after = {"steady": 0.9, "leaning": 0.2}
    ledgered.stress([f"source-{index}" for index in range(sources)], dict.fromkeys(EDITED, after))
    originals = {item.source_image for item in ledgered.items}

    def read(ref: str) -> bytes:
        return magenta(ref) if ref in originals else ledgered.world.store.get(ref)

    run = recorded_run(fake_config(), ledgered.items)
    return render_stress_test(summarize(run, ledgered.items), run, ledgered.items, image or read)


OPERATIONS = {name: [1, 3, 5] for name in ("gaussian-blur", "rotation", "darker", "fog", "crop", "haze")}
"""Each fools one of two classifiers at levels 3 and 5."""


def operations_page(
    image: ReadImage = magenta, sources: int = 24, severity: SeverityPlan | None = None
) -> str:
    """A stress test of operations on photographs; each fools ``leaning`` on other images first."""
    plan = TransformPlan(operations=OPERATIONS | {"flip-horizontal": [1]}, size=512, severity=severity)
    request = fake_config().request.model_copy(update={"classifiers": ["steady", "leaning", "leaning-once"]})
    config = fake_config().model_copy(update={"transforms": plan, "request": request})
    items = [_operations_item(number, plan) for number in range(sources)]
    run = recorded_run(config, items)
    return render_operations(summarize_operations(run, items, config), run, items, image)


def _operations_item(number: int, plan: TransformPlan) -> Item:
    source = f"{number:08x}".ljust(64, "0")
    wanted = [
        (IDENTITY, 0),
        (PLACEBO, 0),
        *((name, level) for name in plan.operations for level in plan.operations[name]),
    ]
    made = []
    for name, level in wanted:
        order = (number + 5 * list(OPERATIONS).index(name) if name in OPERATIONS else number) % 24
        fooled = name in OPERATIONS and level >= 3 and order < 18
        right = prediction(0.98 - order / 100)
        answers = {
            "steady": prediction(0.9),
            "leaning": prediction(0.2) if fooled else right,
            "leaning-once": prediction(0.2) if fooled and name == "gaussian-blur" else right,
        }
        recipe = Recipe(source, name, level=level, size=plan.size)
        made.append(TransformedImage(operation=name, level=level, recipe=str(recipe), predictions=answers))
    result = ItemResult(image=source, caption="", predictions=made[0].predictions, transformed=made)
    return Item.model_validate(
        {
            "id": f"run-1.{number}", "ordinal": number, "state": "done", "attempts": 1, "kind": "transforms",
            "item_group": f"source-{number}", "source_image": source, "label": "sled", "result": result,
        }
    )  # fmt: skip


def benchmark_page(image: ReadImage = magenta) -> str:
    """Six classifiers under three shifts."""
    made = reported_benchmark()
    return render_benchmark(reported_summary(), made.run, made.items, image)


def interface_page(image: ReadImage = magenta) -> str:
    """Three classes with six images of each row, and two that were not learned."""

    def refs(row: int, shade: int) -> list[str]:
        return [f"{row:02x}{shade:02x}{at:02x}".ljust(64, "0") for at in range(6)]

    def read(ref: str) -> bytes:
        return json.dumps(refs(0, int(ref[-2:], 16))).encode() if ref.startswith(_OWN[:32]) else image(ref)

    names = ("plate", "sled", "kite")
    tokens = {
        name: a_token(
            token_images=refs(1, shade), name_images=refs(2, shade),
            resemblance=similarity(0.8 - 0.2 * shade), name_resemblance=similarity(0.5),
        )
        for shade, name in enumerate(names)
    }  # fmt: skip
    lists = {name: f"{_OWN[:62]}{shade:02x}" for shade, name in enumerate(names)}
    config = a_config().model_copy(update={"classes": [*names, "boat", "tram"], "images": lists})
    summary = an_interface_summary(tokens=tokens, config=config)
    return render_interface(summary, an_interface_run("cancelled"), [], read)


PAGES: dict[str, Callable[[ReadImage], str]] = {
    "stress-test": stress_test_page,
    "shift-benchmark": benchmark_page,
    "dataset-interface": interface_page,
    "operations": operations_page,
    "severity": partial(operations_page, severity=SeverityPlan(plan="grid", loss=0.1, full_share=0.1)),
}
"""Every report by its kind of run."""
