"""The whole system over HTTP: real Ray, models and processes, with one service killed mid-run."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from counterpose import Client, CounterposeError
from counterpose._stack import Stack, status_of
from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.contract.runs import Item
from counterpose_core.errors import ImageUndecodable, UnknownModel
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.types import EditType
from counterpose_miniature.world import object_mask, render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from counterpose_services.settings import SERVICES
from evaluation.reference.same_answers import LEVELS, levels_apart
from fakes.bad_files import IMAGE
from fakes.running_stack import SOURCES_PER_CLASS, kill_replica, replica_of

EDIT_TYPES: tuple[EditType, ...] = ("background", "adjective")
PLANNED = 8 * SOURCES_PER_CLASS * (len(EDIT_TYPES) + 3)


@pytest.fixture
def client(running_stack: Stack) -> Iterator[Client]:
    with Client(running_stack.url) as opened:
        yield opened


def test_status_shows_every_process_and_service_of_a_ready_stack(running_stack: Stack) -> None:
    found = status_of(running_stack)
    assert (found.ready, found.waiting_for, found.gateway_version) == (True, None, found.version)
    assert {process.name: process.pid for process in found.processes} == running_stack.pids()
    assert {service.service: service.ready for service in found.services} == dict.fromkeys(SERVICES, True)


def outcomes(items: list[Item]) -> Counter[str]:
    return Counter(item.state for item in items)


@pytest.mark.paper("LANCE-S3-pipeline")
@pytest.mark.fault("F1", "F2")
@pytest.mark.timeout(600)
def test_a_run_loses_nothing_when_a_service_is_killed(running_stack: Stack, client: Client) -> None:
    run = client.stress_tests.create(
        dataset="demo", classifiers=["leaning-resnet"], edit_types=EDIT_TYPES, max_edits_per_image=2, seed=0
    )
    killed = None
    for event in run.events():
        counts = event.request_counts
        assert counts.total == PLANNED
        if killed is None and counts.pending < counts.total:
            killed = kill_replica(running_stack, "editor")
    assert killed is not None
    assert replica_of(running_stack, "editor") not in (None, killed)
    items = list(run.items())
    assert run.run.state == "completed"
    assert len(items) == len({item.id for item in items}) == PLANNED
    assert set(outcomes(items)) <= {"done", "filtered"}
    assert all(item.result is not None for item in items if item.state == "done")
    summary = run.summary()
    assert summary.counts["planned"] == PLANNED
    assert summary.counts["done"] == outcomes(items)["done"]
    assert set(summary.models) == {"leaning-resnet"}
    assert "<html" in run.report()[:400].lower()


@pytest.mark.timeout(300)
def test_the_same_seed_gives_the_same_images(client: Client) -> None:
    made = []
    for key in ("once", "again"):
        run = client.stress_tests.create(
            dataset="demo",
            classifiers=["unbiased-resnet"],
            edit_types=["background"],
            max_edits_per_image=1,
            limit=2,
            seed=3,
            idempotency_key=f"same-seed-{key}",
        ).wait()
        items = list(run.items())
        results = [item.result for item in items if item.result is not None]
        decided = [(item.state, item.result and item.result.strength) for item in items]
        made.append((decided, [decode_image(run.image(result.image)) for result in results]))
    (decided, images), (decided_again, images_again) = made
    assert decided == decided_again
    assert images
    for first, again in zip(images, images_again, strict=True):
        assert levels_apart(first, again) <= LEVELS


@pytest.mark.timeout(300)
def test_the_released_rule_stops_at_the_largest_value_that_passes(client: Client) -> None:
    run = client.stress_tests.create(
        dataset="demo", classifiers=["unbiased-resnet"], max_edits_per_image=5, limit=3, seed=4,
        selection="released",
    ).wait()  # fmt: skip
    results = [item.result for item in run.items() if item.state == "done" and item.result]
    edited = [result for result in results if result.strength is not None]
    assert edited
    assert all(result.strength == min(result.strengths_tried) for result in edited)
    sweep = run.summary().sweep
    assert sweep is not None
    assert sweep.selection == "released"
    assert sweep.edits <= sweep.made < sweep.values * sweep.edits


@pytest.mark.timeout(300)
def test_edits_are_chosen_by_preview_and_kept_in_full(client: Client) -> None:
    made = {}
    for preset in ("quick", "preview"):
        run = client.stress_tests.create(
            dataset="demo", classifiers=["unbiased-resnet"], max_edits_per_image=5, limit=3, seed=4,
            preset=preset,
        ).wait()  # fmt: skip
        results = [item.result for item in run.items() if item.state == "done" and item.result]
        made[preset] = [result for result in results if result.strength is not None]
    assert all("preview-decoder" in result.models for result in made["preview"])
    # The same latents, decoded in full: where both chose one value, they kept one image.
    plain = {(one.edited_caption, one.strength): one.scores for one in made["quick"]}
    both = [one for one in made["preview"] if (one.edited_caption, one.strength) in plain]
    assert both
    for one in both:
        other = plain[one.edited_caption, one.strength]
        assert one.scores
        assert other
        assert one.scores.image_image == pytest.approx(other.image_image, abs=2e-3)


def test_a_missing_classifier_or_dataset_is_refused_by_name(client: Client) -> None:
    with pytest.raises(UnknownModel, match="no-such-model"):
        client.stress_tests.create(dataset="demo", classifiers=["no-such-model"], seed=0)
    with pytest.raises(CounterposeError, match="'nowhere'"):
        client.stress_tests.create(dataset="nowhere", classifiers=["leaning-resnet"], seed=0)


@pytest.mark.paper("LANCE-X-wrong-region")
@pytest.mark.timeout(300)
def test_a_region_leaves_the_objects_of_images_with_masks_as_they_were(client: Client) -> None:
    scenes = list(balanced_scenes(VALIDATION, DATASET, 1, 0))[:2]
    uploads = [
        SourceUpload(
            filename=f"{scene.object_class}.png",
            label=scene.object_class,
            content_base64=base64.b64encode(encode_png(render(scene))).decode(),
            mask_base64=base64.b64encode(encode_png(white(object_mask(scene)))).decode(),
        )
        for scene in scenes
    ]
    client.datasets.create(name="masked")
    client.datasets.add("masked", uploads)
    run = client.stress_tests.create(
        dataset="masked",
        classifiers=["unbiased-resnet"],
        edit_types=["background"],
        region="background",
        lance_r_edits_per_image=0,
        confirm=False,
        outside_suite="continue",
        seed=0,
    ).wait()
    made = [item for item in run.items() if item.state == "done" and item.kind in ("edit", "placebo")]
    assert made
    for item in made:
        assert item.result is not None
        region = item.result.region
        assert region is not None
        assert (region.edits, region.by) == ("outside", "latent")
        assert region.unchanged is not None
        edited, unchanged, mask = (
            decode_image(run.image(ref)) for ref in (item.result.image, region.unchanged, region.mask)
        )
        inside = mask[..., 0] >= 128
        assert np.array_equal(edited[inside], unchanged[inside])
        assert not np.array_equal(edited[~inside], unchanged[~inside]) or item.kind == "placebo"
    summary = run.summary()
    assert summary.preservation is not None
    leaked = summary.preservation.rows["edit"].shares["leaked"]
    assert (leaked.estimate, leaked.n > 0) == (0.0, True)
    assert "change what lies outside their region" in run.report()
    with pytest.raises(CounterposeError, match="images have no mask"):
        client.stress_tests.create(
            dataset="demo", classifiers=["unbiased-resnet"], preset="lance-region", seed=0
        )


def white(inside: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.repeat((inside * 255).astype(np.uint8)[..., None], 3, axis=2)


def test_a_bad_file_does_not_affect_others(client: Client) -> None:
    client.datasets.create(name="mixed")
    bad = SourceUpload(filename="bad.png", label="bus", content_base64="bm8gcGljdHVyZQ==")
    good = SourceUpload(filename="good.png", label="bus", content_base64=base64.b64encode(IMAGE).decode())
    added = client.datasets.add("mixed", [bad, good])
    assert added.added == 1
    assert [(one.filename, one.code) for one in added.rejected] == [("bad.png", ImageUndecodable.code)]
    with pytest.raises(ImageUndecodable, match=r"'bad\.png'"):
        client.datasets.add("mixed", [bad])


def test_every_service_reports_that_it_is_ready(client: Client) -> None:
    services = {service.service: service.ready for service in client.services.list().services}
    assert services == dict.fromkeys(("captioner", "perturber", "editor", "scorer", "classifiers"), True)


@pytest.mark.fault("F19")
@pytest.mark.timeout(120)
def test_a_cancelled_run_keeps_finished_items_and_can_be_resumed(client: Client) -> None:
    run = client.stress_tests.create(
        dataset="demo", classifiers=["unbiased-resnet"], edit_types=["domain"], max_edits_per_image=1, seed=9
    )
    run.cancel().wait()
    counts = run.run.request_counts
    assert run.run.state == "cancelled"
    assert counts.pending == 0
    assert counts.total == 8 * 4
