"""Links from report rows to items, sections of classes, and hidden refused images."""

from __future__ import annotations

import re
from functools import cache

import pytest

from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.results import EDITED, Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}


def made(sources: int = 20) -> Ledgered:
    """Many sleds whose background leads one classifier astray, and a few boats."""
    ledgered = Ledgered()
    for label, number in (("sled", sources), ("boat", 3)):
        for index in range(number):
            source = f"{label}-{index}"
            ledgered.add(source, "reconstruction", label=label)
            ledgered.add(source, "placebo", label=label)
            for edit_type in EDITED:
                after = SHAKEN if (label, edit_type) == ("sled", "background") else None
                ledgered.add(source, edit_type=edit_type, label=label, after=after)
    return ledgered


def report(ledgered: Ledgered, summary: StressTestSummary | None = None, **changes: object) -> str:
    run = recorded_run(fake_config().model_copy(update=changes), ledgered.items)
    return render(summary or summarize(run, ledgered.items), run, ledgered.items, ledgered.world.store.get)


@cache
def standard() -> tuple[Ledgered, StressTestSummary, str]:
    """Items, summary and report of one run, made once: its figures take most of the time."""
    ledgered = made()
    summary = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    return ledgered, summary, report(ledgered, summary)


def section(html: str, name: str) -> str:
    return re.split("<h[23]|<details class=.drawer", html.split(f'id="{name}"')[1])[0]


def test_every_internal_link_leads_to_one_place() -> None:
    _, _, html = standard()
    inside = re.findall(r'href="#([^"]+)"', html)
    places = re.findall(r' id="([^"]+)"', html)
    assert inside
    assert set(inside) <= set(places)
    assert len(set(places)) == len(places)


def test_no_link_leaves_the_page() -> None:
    _, _, html = standard()
    assert not [link for link in re.findall(r'href="([^"]*)"', html) if not link.startswith(("#", "data:"))]


@pytest.mark.paper("LANCE-F6-insights")
def test_findings_classes_and_failure_modes_lead_to_their_images() -> None:
    ledgered, summary, html = standard()
    assert html.count('href="#finding-1"') >= 1
    for found in summary.classes.values():
        assert f'href="#item-{found.example_item}"' in html.split('id="classes"')[1]
    suspected = summary.failure_modes["label-incompatible"].model_copy(
        update={"count": 1, "example_items": ["item-2"]}
    )
    told = summary.model_copy(
        update={"failure_modes": {**summary.failure_modes, "label-incompatible": suspected}}
    )
    assert 'href="#item-item-2"' in section(report(ledgered, told), "failure-modes")


def test_each_image_of_the_gallery_names_its_item() -> None:
    _, _, html = standard()
    cards = re.findall(
        r'<article class="card kind[^>]* id="item-([^"]+)"(.*?)</article>', html, flags=re.DOTALL
    )
    assert len(cards) > 15
    for item, card in cards:
        assert f"<code>{item}</code>" in card


def test_an_image_of_a_finding_is_not_repeated_in_the_gallery() -> None:
    _, _, html = standard()
    in_findings = set(re.findall(r'<div class="pair[^"]*" id="item-([^"]+)"', html))
    in_gallery = set(re.findall(r'<article class="card kind[^>]* id="item-([^"]+)"', html))
    assert in_findings
    assert not in_findings & in_gallery


def test_an_item_without_an_embedded_image_is_named_without_a_link() -> None:
    ledgered, summary, _ = standard()
    modes = {
        name: mode.model_copy(update={"example_items": [ledgered.items[0].id]})
        for name, mode in summary.failure_modes.items()
    }
    html = report(ledgered, summary.model_copy(update={"failure_modes": modes}))
    assert '<span class="muted">item 0</span>' in section(html, "failure-modes")


def test_each_class_is_listed_with_counts_intervals_and_sources() -> None:
    _, _, html = standard()
    text = text_of(section(html, "classes"))
    assert "100 of 100 planned 100 %" in text
    assert "100 % → 80 %" in text
    assert "20 sources, 100 images" in text
    assert "Lowest accuracy on counterfactuals: leaning on sled, 80 %" in text
    assert "100 kept of 100" in text
    assert html.split('id="classes"')[1].count('<div class="chart"') == 2


def test_a_summary_without_classes_has_no_class_section() -> None:
    ledgered, summary, _ = standard()
    assert 'id="classes"' not in report(ledgered, summary.model_copy(update={"classes": {}}))


def test_refused_edits_are_counted_and_objectionable_images_are_hidden() -> None:
    ledgered = made(3)
    shown = ledgered.add("sled-0", edit_type="domain", state="filtered", reason="gate-closer")
    hidden = ledgered.add("sled-1", edit_type="domain", state="filtered", reason="objectionable")
    ledgered.add("sled-2", edit_type="domain", state="filtered", reason="subjective", result=None)
    html = report(ledgered, objectionable=0.2, excluded=["a", "b"])
    assert f'id="item-{shown.id}"' in html
    assert f'id="item-{hidden.id}"' not in html
    text = text_of(section(html, "accounting"))
    assert "2 source images were excluded by name" in text
    assert "1 generated image was dropped as objectionable" in text
    assert "1 planned edit was dropped as subjective" in text


def test_a_run_without_content_checks_says_so() -> None:
    assert "were not checked for objectionable content" in text_of(section(standard()[2], "accounting"))
