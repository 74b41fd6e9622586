"""What every report keeps in a real browser: wide, dark and on a phone, on paper, and in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes.axe import violations
from fakes.browser import FIRST, Tab, share
from fakes.report_pages import MAGENTA, PAGES, photograph, stress_test_page

PAPER, NIGHT, BAR = (250, 249, 247), (20, 20, 19), (177, 58, 10)
MODES = {"wide": (1300, 1000, False), "dark": (1300, 1000, True), "phone": (390, 844, False)}

every_report = pytest.mark.parametrize("kind", PAGES)
every_mode = pytest.mark.parametrize("mode", MODES)


def open_in(tab: Tab, page: Path, mode: str) -> None:
    width, height, dark = MODES[mode]
    tab.open(page, width, height, dark=dark)


@every_report
@every_mode
def test_the_first_screen_shows_an_image_after_few_words(
    tab: Tab, pages: Mapping[str, Path], kind: str, mode: str
) -> None:
    open_in(tab, pages[kind], mode)
    first = tab.value(FIRST)
    assert first["top"] <= 400
    assert first["words"] <= 120
    pixels = tab.pixels()
    assert share(pixels, MAGENTA) > 0.01
    assert share(pixels[:, :6], NIGHT if mode == "dark" else PAPER) == 1.0


@every_report
@every_mode
def test_axe_objects_to_nothing(tab: Tab, pages: Mapping[str, Path], kind: str, mode: str) -> None:
    open_in(tab, pages[kind], mode)
    assert violations(tab) == []


def test_axe_sees_an_image_without_a_text(tab: Tab, pages: Mapping[str, Path]) -> None:
    open_in(tab, pages["dataset-interface"], "wide")
    tab.value("document.querySelector('main').append(new Image(9, 9))")
    [found] = violations(tab)
    assert found.startswith("image-alt: 1 times")


@every_report
def test_a_narrow_window_does_not_scroll_sideways(tab: Tab, pages: Mapping[str, Path], kind: str) -> None:
    for width in (320, 390):
        tab.open(pages[kind], width, 800)
        tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert tab.value("document.documentElement.scrollWidth") == width


@every_report
def test_a_report_prints_on_at_most_eight_pages(tab: Tab, pages: Mapping[str, Path], kind: str) -> None:
    tab.open(pages[kind], 1300, 1000)
    assert 1 <= tab.printed_pages() <= 8


@every_report
def test_a_report_loads_nothing(tab: Tab, pages: Mapping[str, Path], kind: str) -> None:
    tab.open(pages[kind], 1300, 1000)
    loaded = "performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length"
    assert tab.value(loaded) == 0


@every_report
def test_a_report_of_photographs_stays_below_five_megabytes(kind: str) -> None:
    """The stress test keeps 500 edits of 100 photographs, of which it shows those that a reader needs."""
    html = stress_test_page(photograph, 100) if kind == "stress-test" else PAGES[kind](photograph)
    assert html.count("data:image/webp") >= (24 if kind in ("operations", "severity") else 50)
    assert len(html) < 5_000_000


def test_shifts_are_drawn_as_bars(tab: Tab, pages: Mapping[str, Path]) -> None:
    tab.open(pages["shift-benchmark"], 1300, 1000)
    assert share(tab.pixels(), BAR) > 0.002


@every_report
def test_a_title_at_the_head_of_a_card_has_no_gap_above_it(
    tab: Tab, pages: Mapping[str, Path], kind: str
) -> None:
    tab.open(pages[kind], 1300, 1000)
    card = "<section class='card' id='titled'><h2>Title</h2></section>"
    tab.value(f'document.querySelector("main").insertAdjacentHTML("beforeend", "{card}")')
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert tab.value(f"{top.format('#titled h2')} - {top.format('#titled')}") < 20
