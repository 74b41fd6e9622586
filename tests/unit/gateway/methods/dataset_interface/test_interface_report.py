"""The report of a dataset interface: curves, similarities, images and missing classes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from counterpose_core.contract.dataset_interfaces import TokenResult
from counterpose_core.errors import ArtifactMissing
from counterpose_core.images.codecs import encode_raw
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.methods.dataset_interface.report import SHOWN_CLASSES, loss_curve, render
from counterpose_gateway.methods.dataset_interface.summary import state_of
from fakes.interface_answers import a_config, a_token, an_interface_run, an_interface_summary, similarity
from fakes.pages import text_of

LIST, REAL, BY_TOKEN, BY_NAME = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
BLOBS = {LIST: json.dumps([REAL, REAL]).encode()} | {
    ref: encode_raw(np.full((8, 8, 3), shade, dtype=np.uint8))
    for shade, ref in enumerate((REAL, BY_TOKEN, BY_NAME))
}


def read(ref: str) -> bytes:
    if ref not in BLOBS:
        raise ArtifactMissing(f"no artifact is stored as {ref!r}")
    return BLOBS[ref]


def judged_token(**told: object) -> TokenResult:
    """A learned token with the verdict that its figures have."""
    token = a_token(**told)
    return token.model_copy(update={"state": state_of(token)})


def page(listed: str = LIST, **told: object) -> str:
    token = judged_token(
        token_images=[BY_TOKEN], name_images=[BY_NAME], resemblance=similarity(0.8),
        name_resemblance=similarity(0.5), own_words=["food"],
    )  # fmt: skip
    config = a_config().model_copy(update={"images": {"plate": listed}})
    summary = an_interface_summary(**({"tokens": {"plate": token}, "config": config} | told))
    return render(summary, an_interface_run("cancelled"), [], read)


def test_the_report_is_self_contained() -> None:
    html = page()
    assert html.count("<script") == 1
    assert "default-src 'none'; img-src data:" in html
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)


def test_classes_without_a_token_are_listed_first_with_the_reason() -> None:
    text = text_of(page())
    assert "2 classes without a token: boat : dataset-empty: no image can be read" in text
    assert "tram : learning was cancelled" in text
    assert text.index("without a token") < text.index("Do images look like their class?")


def test_figures_have_intervals_and_n() -> None:
    text = text_of(page())
    assert "0.300 0.280 to 0.320 n=12" in text
    assert "0.500 0.480 to 0.520 n=12" in text
    assert "own words: food" in text


def columns(html: str) -> list[str]:
    """The titles of the columns of images."""
    return re.findall(r"<figure><figcaption>(.*?)</figcaption><svg", html.replace("\n", ""))


def test_real_and_generated_images_are_shown_side_by_side() -> None:
    assert columns(page()) == ["your images", "by token", "by name"]


@pytest.mark.parametrize("listed", ["9" * 64, REAL])
def test_a_lost_list_of_real_images_only_drops_those_images(listed: str) -> None:
    assert columns(page(listed)) == ["by token", "by name"]


def test_the_headline_names_the_classes_whose_token_is_no_closer() -> None:
    assert "1 of 1 classes look more like your data by token than by name." in text_of(page())
    shown = [BY_TOKEN]
    worse = judged_token(token_images=shown, resemblance=similarity(0.4), name_resemblance=similarity(0.5))
    better = judged_token(token_images=shown, resemblance=similarity(0.6), name_resemblance=similarity(0.5))
    html = page(tokens={"boat": better, "plate": worse})
    told = text_of(html)
    assert re.findall(r"<h2[^>]*>(plate|boat) <", html) == ["plate", "boat"]
    assert "1 of 2 classes look more like your data by token than by name; plate looks less like it." in told
    assert (told.count("✗ breaks"), told.count("✓ holds")) == (1, 1)


def test_a_class_whose_intervals_overlap_cannot_be_told() -> None:
    near = judged_token(
        token_images=[BY_TOKEN], resemblance=similarity(0.52), name_resemblance=similarity(0.5)
    )
    told = text_of(page(tokens={"plate": near}))
    assert (
        "0 of 1 classes look more like your data by token than by name; of plate it cannot be told." in told
    )
    assert "– can't tell" in told
    assert "too few images to tell them apart" in told


def test_the_headline_has_the_worst_state() -> None:
    worse = judged_token(resemblance=similarity(0.4), name_resemblance=similarity(0.5))
    better = judged_token(resemblance=similarity(0.6), name_resemblance=similarity(0.5))
    told = [an_interface_summary(tokens=tokens) for tokens in ({"a": better}, {"a": better, "b": worse}, {})]
    assert [DATASET_INTERFACE.headline(each).state for each in told] == ["holds", "breaks", ""]


@pytest.mark.parametrize("missing", ["resemblance", "name_resemblance"])
def test_a_class_that_was_not_compared_has_no_state(missing: str) -> None:
    figures = {"resemblance": similarity(0.6), "name_resemblance": similarity(0.5), missing: None}
    assert judged_token(**figures).state is None


def test_the_loss_curve_runs_from_left_to_right() -> None:
    curve = loss_curve([0.5, 0.4, 0.3])
    assert curve is not None
    points = [tuple(map(float, point.split(","))) for point in curve.points.split()]
    assert points == sorted(points)
    # Down is larger in SVG: a loss that falls goes down.
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert (curve.first, curve.last) == (0.5, 0.3)
    assert 'class="curve" points="' in page()


@pytest.mark.parametrize("losses", [[], [0.5], [0.5, 0.5]])
def test_a_loss_curve_of_too_few_points_is_not_drawn(losses: list[float]) -> None:
    html = page(tokens={"plate": judged_token(losses=losses)})
    assert ("polyline" in html) == (len(losses) > 1)


def test_an_interface_without_tokens_has_a_report() -> None:
    text = text_of(page(tokens={}))
    assert "0 of 3 classes learned" in text


def test_only_the_first_classes_are_illustrated_but_all_are_tabulated() -> None:
    names = [f"class-{number}" for number in range(SHOWN_CLASSES + 5)]
    html = page(tokens=dict.fromkeys(names, judged_token(token_images=[BY_TOKEN])))
    assert html.count('<section class="card class">') == SHOWN_CLASSES
    assert f"the table lists all {SHOWN_CLASSES + 5}" in text_of(html)


def test_names_are_escaped_in_html() -> None:
    evil = "<b onclick=x>"
    assert evil not in page(tokens={evil: judged_token()}, missing={evil: evil})
