"""Benchmark and interface reports in a real browser: wide and narrow, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fakes.browser import CHROMIUM, FIRST, Tab, browser, share
from fakes.interface_answers import a_token, an_interface_run, an_interface_summary
from fakes.reported_benchmarks import reported_benchmark, reported_summary
from faultline_core.images.codecs import encode_raw
from faultline_gateway.methods.dataset_interface.report import render as render_interface
from faultline_gateway.methods.shift_benchmark.report.report import render as render_benchmark

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

MAGENTA = (255, 0, 255)
PAPER, NIGHT, BAR = (250, 249, 247), (20, 20, 19), (177, 58, 10)


def magenta(_: str) -> bytes:
    """An image that differs from everything else."""
    return encode_raw(np.full((64, 64, 3), MAGENTA, dtype=np.uint8))


def benchmark_page() -> str:
    """A report all of whose images are magenta."""
    made = reported_benchmark()
    return render_benchmark(reported_summary(), made.run, made.items, magenta)


def interface_page() -> str:
    """A page with generated images of one class."""
    token = a_token(token_images=["3" * 64] * 4, name_images=["4" * 64] * 4)
    summary = an_interface_summary(tokens={"plate": token})
    return render_interface(summary, an_interface_run("cancelled"), [], magenta)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module", params=["benchmark", "interface"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Either page on disk."""
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    html = benchmark_page() if request.param == "benchmark" else interface_page()
    path.write_text(html, encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(1300, False), (1300, True), (390, False)])
def test_the_first_screen_shows_images_after_few_words(tab: Tab, page: Path, width: int, dark: bool) -> None:
    tab.open(page, width, 844, dark=dark)
    first = tab.value(FIRST)
    assert first["top"] <= 400
    assert first["words"] <= 120
    pixels = tab.pixels()
    assert share(pixels, MAGENTA) > 0.01
    assert share(pixels[:, :6], NIGHT if dark else PAPER) == 1.0


def test_a_narrow_window_does_not_scroll_sideways(tab: Tab, page: Path) -> None:
    tab.open(page, 320, 800)
    tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert tab.value("document.documentElement.scrollWidth") == 320


def test_a_report_prints_on_at_most_eight_pages(tab: Tab, page: Path) -> None:
    tab.open(page, 1300, 1000)
    assert 1 <= tab.printed_pages() <= 8


def test_shifts_are_drawn_as_bars(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "benchmark.html"
    path.write_text(benchmark_page(), encoding="utf-8")
    tab.open(path, 1300, 1000)
    assert share(tab.pixels(), BAR) > 0.002
