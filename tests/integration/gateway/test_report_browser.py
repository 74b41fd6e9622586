"""The report in a real browser: its first screen, its budgets, phones, dark colours, paper, and no script."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.browser import CHROMIUM, FIRST, Tab, browser, share
from fakes.recorder import recorded_run
from fakes.results import EDITED, Ledgered, fake_config
from faultline_core.images.codecs import encode_raw
from faultline_gateway.methods.stress_test.report.report import render
from faultline_gateway.methods.stress_test.summary.summary import summarize

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

MAGENTA, PAPER, NIGHT = (255, 0, 255), (250, 249, 247), (20, 20, 19)
MODES = {"wide": (1300, 1000, False), "dark": (1300, 1000, True), "phone": (390, 844, False)}


@cache
def html(photographs: int = 0) -> str:
    """A report whose originals are magenta, or with so many edits of photographs of noise."""
    ledgered = Ledgered()
    after = {"steady": 0.9, "leaning": 0.2}
    number = photographs // len(EDITED) or 8
    ledgered.stress([f"source-{index}" for index in range(number)], dict.fromkeys(EDITED, after))
    originals = {item.source_image for item in ledgered.items}
    flat = encode_raw(np.full((64, 64, 3), MAGENTA, dtype=np.uint8))

    def image(ref: str) -> bytes:
        if photographs:
            return photograph(int(ref[:8], 16))
        return flat if ref in originals else ledgered.world.store.get(ref)

    run = recorded_run(fake_config(), ledgered.items)
    return render(summarize(run, ledgered.items), run, ledgered.items, image)


def photograph(seed: int) -> bytes:
    """Noise of all sizes, about as hard to compress as a photograph."""
    generator = np.random.default_rng(seed)
    layers = [
        np.kron(generator.normal(0, 12, (2**power, 2**power, 3)), np.ones((2 ** (9 - power),) * 2 + (1,)))
        for power in range(2, 8)
    ]
    return encode_raw(np.clip(128 + sum(layers), 0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on disk."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(), encoding="utf-8")
    return path


@pytest.mark.parametrize("mode", MODES)
def test_the_first_screen_shows_an_image_pair_after_few_words(tab: Tab, page: Path, mode: str) -> None:
    width, height, dark = MODES[mode]
    tab.open(page, width, height, dark=dark)
    first = tab.value(FIRST)
    assert first["top"] <= 400
    assert first["words"] <= 120
    assert share(tab.pixels(), MAGENTA) > 0.01


def test_a_narrow_window_does_not_scroll_sideways(tab: Tab, page: Path) -> None:
    for width in (320, 390):
        tab.open(page, width, 800)
        tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert tab.value("document.documentElement.scrollWidth") == width


def test_a_dark_browser_gets_a_dark_page(tab: Tab, page: Path) -> None:
    for dark, colour in ((True, NIGHT), (False, PAPER)):
        tab.open(page, 1000, 1200, dark=dark)
        assert share(tab.pixels()[:, :8], colour) == 1.0


def test_the_page_loads_nothing_and_its_script_runs(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert (
        tab.value(
            "performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length"
        )
        == 0
    )
    assert tab.value("document.querySelectorAll('.strip-keys button').length") >= 2


def test_arrow_keys_go_from_pair_to_pair(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    tab.value("document.querySelector('.strip').focus()")
    tab.press("ArrowRight")
    assert tab.value("document.querySelector('.strip-keys span').textContent").startswith("2 of ")


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


def test_the_report_prints_on_at_most_eight_pages(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert 1 <= tab.printed_pages() <= 8


def test_a_hundred_pairs_of_photographs_stay_below_five_megabytes() -> None:
    made = html(photographs=500)
    assert made.count("data:image/webp") >= 60
    assert len(made) < 5_000_000


def test_what_is_open_has_at_most_three_thousand_words(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert tab.value("document.querySelector('main').innerText.split(/\\s+/).length") <= 3000
