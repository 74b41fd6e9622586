"""The HTML report: its content, its escaping, and that it is self-contained."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from counterpose_core.commands import repeat_command, repeat_notes
from counterpose_core.contract.confirmation import SuspectedChange
from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.proofs import Proof
from counterpose_core.errors import ArtifactCorrupt
from counterpose_core.types import Cost, Estimate
from counterpose_gateway.methods.stress_test.report.captions import mark
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.reports.images import Album, shrink
from counterpose_gateway.reports.numbers import count, duration, percent, points_interval, signed
from counterpose_gateway.reports.plots import fitted_axis, plot
from counterpose_gateway.routes.runs import REPORT_HEADERS
from fakes.findings import a_finding
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.results import EDITED, Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}


def report(ledgered: Ledgered, **changes: object) -> str:
    run = recorded_run(fake_config(**changes), ledgered.items)
    return render(summarize(run, ledgered.items), run, ledgered.items, ledgered.world.store.get)


def full() -> Ledgered:
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(6)], dict.fromkeys(EDITED, SHAKEN))
    ledgered.add("source-0", edit_type="domain", state="filtered", reason="gate-direction")
    ledgered.add("source-1", edit_type="domain", state="failed", code="bad-backend-output", result=None)
    return ledgered


LOADING = ("src", "href", "srcset", "data", "action", "poster", "background")


class Page(HTMLParser):
    """Every attribute that could load something, and every tag that is opened and not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        # A link loads nothing until somebody follows it.
        loading = [attr for attr in LOADING if (tag, attr) != ("a", "href")]
        self.loads += [value or "" for name, value in attrs if name in loading]
        if tag not in ("meta", "img", "line", "circle", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in LOADING]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_well_formed_and_loads_nothing() -> None:
    page = Page(report(full()))
    assert page.open == []
    images = [load for load in page.loads if not load.startswith("#")]
    assert images
    assert all(load.startswith("data:image/webp;base64,") for load in images)
    assert len(set(images)) == len(images)
    assert not {"link", "iframe", "object", "img"} & set(page.tags)


def test_the_policy_allows_the_one_script_by_its_digest() -> None:
    html = report(full())
    [script] = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert f"script-src 'sha256-{digest}'" in REPORT_HEADERS["content-security-policy"]
    assert len(script.splitlines()) <= 200


def test_the_stylesheet_loads_nothing() -> None:
    html = report(full())
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


@pytest.mark.paper("LANCE-F3-sensitivity")
def test_the_report_starts_with_the_verdict_and_has_every_section() -> None:
    html = report(full())
    text = text_of(html)
    order = [
        "verdict",
        "models",
        "findings",
        "compare",
        "by-class",
        "by-kind",
        "gallery",
        "trust",
        "accuracy",
        "method",
        "sensitivity",
        "reproduce",
    ]
    places = [html.index(f'id="{part}"') for part in order]
    assert places == sorted(places)
    assert text.index("looks fooled") < text.index("takes sleds for boats")
    stopped = "the image does not change as its caption does"
    for word in ("bad-backend-output", stopped, "UNet evaluations", "strength", "n=6"):
        assert word in text


def test_cost_is_reported_in_evaluations_and_operations() -> None:
    ledgered = Ledgered()
    ledgered.add("source", "reconstruction")
    cost = Cost(
        unet_evaluations=1200, unet_backward_evaluations=34, flops=963_928_129_536_000,
        attention_map_bytes=7_500_000_000, host_syncs=56,
    )  # fmt: skip
    result = ledgered.items[0].result
    assert result is not None
    ledgered.items[0] = ledgered.items[0].model_copy(
        update={"result": result.model_copy(update={"cost": cost})}
    )
    text = text_of(report(ledgered))
    for told in ("× branches) 1 200", "backward evaluations 34", "autoencoder 964 TFLOP",
                 "fused kernel 7.50 GB", "diffusion loops 56"):  # fmt: skip
        assert told in text


@pytest.mark.parametrize(
    ("selection", "rule"),
    [
        ("paper", "keeps the passing value with the best direction"),
        ("released", "smaller values only where larger"),
    ],
)
def test_the_sweep_selection_is_reported(selection: str, rule: str) -> None:
    ledgered = full()
    for index, item in enumerate(ledgered.items):
        if item.kind == "edit" and item.result is not None:
            tried = item.result.model_copy(update={"strengths_tried": [0.6, 0.8]})
            ledgered.items[index] = item.model_copy(update={"result": tried})
    text = text_of(report(ledgered, selection=selection))
    assert rule in text
    assert "3 values of strength" in text
    assert "62 images for 31 edits" in text


def _reproduced(html: str) -> tuple[str, list[str]]:
    """The command of *Reproduce* as it is copied from the page, and its notes."""
    section = html.partition('<section id="reproduce">')[2].partition("<p>")[0]
    [command] = re.findall(r'<div class="command"><code>(.*?)</code></div>', section, flags=re.DOTALL)
    return unescape(command), [unescape(note) for note in re.findall(r'<p class="note">(.*?)</p>', section)]


def test_reproduce_shows_the_command_that_repeats_the_run_and_what_it_cannot_say() -> None:
    ledgered, edits = full(), [("grass", "<snow> & 'ice'"), ("dog", "cat, fox")]
    changes: dict[str, object] = {
        "interventions": [{"removed": removed, "added": added} for removed, added in edits],
        "strength": [0.4, 0.6],
        "seed": 17,
    }
    request = fake_config(**changes).request
    command, notes = _reproduced(report(ledgered, **changes))
    assert command == repeat_command(request)
    assert "<snow> & " in command
    assert notes == [f"{note}." for note in repeat_notes(request)]
    assert len(notes) == 1


def test_reproduce_of_a_proof_shows_the_command_that_proves_again() -> None:
    proof = Proof(
        parent="3fa8" + "0" * 28, finding=a_finding(number=2), wordings=[], images=12, family=2,
        change=SuspectedChange(edit_type="background", removed="rain", added=""),
    )  # fmt: skip
    ledgered, config = full(), fake_config().model_copy(update={"proof": proof})
    run = recorded_run(config, ledgered.items)
    html = render(summarize(run, ledgered.items), run, ledgered.items, ledgered.world.store.get)
    assert _reproduced(html) == (repeat_command(config.request, proof), [])


@pytest.mark.paper("LANCE-F5-gallery", "LANCE-F6-insights")
def test_image_pairs_are_shown_with_their_edited_words_marked() -> None:
    html = report(full())
    assert "on the <del>grass</del>" in html
    assert "<mark>snow</mark> instead of <del>grass</del>" in html
    assert "a <mark>painting</mark> of" in html
    assert html.count('class="pair"') >= 12


def test_the_weights_used_are_named_and_changes_are_shown() -> None:
    ledgered = full()
    for item, revision in zip(ledgered.items[:2], ("a1", "b2"), strict=True):
        assert item.result is not None
        item.result.models["editor"] = f"miniature/editor@{revision}"
    assert "editor miniature/editor@a1, miniature/editor@b2" in text_of(report(ledgered))


@pytest.mark.paper("LANCE-F5-gallery")
def test_each_pair_shows_the_top_five_predictions() -> None:
    text = text_of(report(full()))
    assert "sled 90 % boat 10 % " in text


def test_answers_that_round_to_nothing_are_left_out() -> None:
    ledgered = full()
    for item in ledgered.items:
        assert item.result is not None or item.state == "failed"
        for said in item.result.predictions.values() if item.result else ():
            said.shown.append(("tram", 0.001))
    assert "tram" not in text_of(report(ledgered))


@pytest.mark.fault("B64")
def test_a_report_without_kept_edits_says_so() -> None:
    ledgered = Ledgered()
    ledgered.add("a", "reconstruction")
    ledgered.add("a", edit_type="domain", state="filtered", reason="gate-direction")
    html = report(ledgered)
    assert "No verdict" in html
    assert "No edit survived the filters" in html
    Page(html)


def test_a_run_whose_items_all_failed_has_a_report() -> None:
    ledgered = Ledgered()
    ledgered.add("a", "reconstruction", state="failed", code="backend-unavailable", result=None)
    text = text_of(report(ledgered))
    assert "backend-unavailable" in text
    assert "No verdict" in text


HOSTILE = '<script>alert("1")</script>{{ 7 * 7 }}'


@pytest.mark.fault("B31", "T14")
def test_all_external_text_is_escaped() -> None:
    ledgered = full()
    item = ledgered.items[2]
    assert item.result is not None
    result = item.result.model_copy(
        update={"caption": HOSTILE, "edited_caption": HOSTILE, "removed": [], "added": []}
    )
    ledgered.items = [
        found.model_copy(update={"label": HOSTILE, "result": result if found is item else found.result})
        for found in ledgered.items
    ]
    html = report(ledgered, dataset="demo")
    assert html.count("<script") == 1
    assert "alert(" in html
    assert "{{ 7 * 7 }}" in html


def test_a_missing_or_broken_image_leaves_a_gap() -> None:
    ledgered = full()
    gone = ledgered.items[2].source_image
    del ledgered.world.store.blobs[gone]
    assert "image not available" in report(ledgered)

    def broken(ref: str) -> bytes:
        raise ArtifactCorrupt(f"{ref!r} is corrupt")

    assert Album(broken).original("a") is None


def test_large_images_are_scaled_down_and_small_ones_are_unchanged() -> None:
    assert shrink(np.zeros((512, 384, 3), np.uint8)).shape == (256, 192, 3)
    small = np.zeros((64, 64, 3), np.uint8)
    assert shrink(small) is small
    assert shrink(np.zeros((2, 4000, 3), np.uint8)).shape == (1, 256, 3)


def test_a_report_of_500_pairs_stays_below_25_mb() -> None:
    ledgered = Ledgered()
    for index in range(500):
        ledgered.add(f"source-{index % 100}", edit_type="background", after=SHAKEN)
    html = report(ledgered)
    assert len(html) < 5_000_000
    assert html.count("<article") <= 50


def test_marking_words_does_not_change_the_caption() -> None:
    text = "A two-storey bus, on the grass."
    segments = mark(text, [WordSpan(words=["two-storey"], start=1), WordSpan(words=["grass"], start=5)])
    assert "".join(segment.text for segment in segments) == text
    assert [segment.text for segment in segments if segment.changed] == ["two-storey", "grass"]


def test_spans_outside_the_text_mark_nothing() -> None:
    segments = mark("one two", [WordSpan(words=["far"], start=9), WordSpan(words=[], start=0)])
    assert [(segment.text, segment.changed) for segment in segments] == [("one two", False)]


def test_dots_are_placed_by_their_values() -> None:
    figure = Estimate(estimate=0.5, low=0.25, high=1.0, n=8)
    missing = Estimate(estimate=None, low=None, high=None, n=0)
    axis = fitted_axis([figure, missing], around=0.0, bounds=(0.0, 1.0))
    drawn = plot({"a": {"x": figure, "y": missing}, "b": {"x": missing}}, axis, zero=0.0)
    [dot] = drawn.bands[0].dots
    assert drawn.bands[1].dots == []
    assert drawn.zero == axis.place(0.0) == drawn.left
    assert dot.high == axis.place(1.0) == drawn.right
    assert dot.x - dot.low == pytest.approx((drawn.right - drawn.left) / 4)
    assert [text for _, text in drawn.ticks] == ["0.00", "+0.20", "+0.40", "+0.60", "+0.80", "+1.00"]


def test_an_empty_plot_has_an_axis() -> None:
    axis = fitted_axis([], around=0.0)
    assert axis.low < 0.0 < axis.high
    assert axis.ticks(5)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (percent(0.934, 1), "93.4 %"),
        (percent(None), "–"),
        (percent(-0.04), "−4 %"),
        (percent(-0.004), "0 %"),
        (signed(-0.25, 2), "−0.25"),
        (signed(-0.001, 2), "0.00"),
        (signed(0.3, 1), "+0.3"),
        (points_interval(Estimate(estimate=0.1, low=-0.05, high=0.2, n=3)), "−5.0 to +20.0"),
        (duration(4.21), "4.2 s"),
        (duration(185), "3 min 05 s"),
        (duration(7800), "2 h 10 min"),
        (count(1234567), "1 234 567"),
    ],
)
def test_numbers_are_formatted_for_readers(written: str, expected: str) -> None:
    assert written == expected
