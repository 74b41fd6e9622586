"""The report of a stress test in a real browser: its script, its filters, and all of it without script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.browser import Tab, share
from fakes.report_pages import MAGENTA


def test_the_script_runs(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert tab.value("document.querySelectorAll('.strip-keys button').length") >= 2


def test_arrow_keys_go_from_pair_to_pair(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    tab.value("document.querySelector('.strip').focus()")
    tab.press("ArrowRight")
    assert tab.value("document.querySelector('.strip-keys span').textContent").startswith("pair 2 of ")


def test_a_table_sorts_by_a_click(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    names = "[...document.querySelectorAll('#models tbody th')].map((cell) => cell.textContent)"
    tab.value("document.querySelector('#models .sorter').click()")
    assert tab.value(names) == ["leaning", "steady"]
    tab.value("document.querySelector('#models .sorter').click()")
    assert tab.value(names) == ["steady", "leaning"]


def test_every_image_and_sentence_is_there_without_script(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000, script=False)
    pixels = tab.pixels()
    tab.open(page, 1300, 1000)
    assert share(pixels, MAGENTA) == pytest.approx(share(tab.pixels(), MAGENTA), rel=0.1)


def test_the_filter_of_the_gallery_needs_no_script(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    cards = "[...document.querySelectorAll('.gallery .cards > article')]"
    shown = f"{cards}.filter((card) => card.offsetParent).length"
    all_of_them = tab.value(shown)
    tab.value("document.querySelector('#only-domain').checked = true")
    assert 0 < tab.value(shown) < all_of_them


def test_targets_are_large_enough_and_scrollers_can_be_focused(tab: Tab, page: Path) -> None:
    tab.open(page, 390, 844)
    tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    small: Any = tab.value(
        "[...document.querySelectorAll('button, summary, select, a.at, label')]"
        ".filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"
    )
    assert small == []
    unfocusable = tab.value(
        "[...document.querySelectorAll('main *')].filter((e) => e.scrollWidth > e.clientWidth + 1"
        " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)"
        " && e.tabIndex < 0).map((e) => e.className)"
    )
    assert unfocusable == []


def test_what_is_open_has_at_most_three_thousand_words(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert tab.value("document.querySelector('main').innerText.split(/\\s+/).length") <= 3000
