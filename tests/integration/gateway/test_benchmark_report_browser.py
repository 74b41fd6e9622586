"""Benchmark and interface reports in a real browser: wide and narrow, light and dark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fakes.browser import CHROMIUM, screenshot, share
from fakes.interface_answers import a_token, an_interface_run, an_interface_summary
from fakes.reported_benchmarks import reported_benchmark, reported_summary
from faultline_core.images.codecs import encode_raw
from faultline_gateway.methods.dataset_interface.report import render as render_interface
from faultline_gateway.methods.shift_benchmark.report.report import render as render_benchmark

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

MAGENTA = (255, 0, 255)
PAPER, NIGHT = (250, 249, 247), (20, 20, 19)
ACCENT, BLUE = (194, 65, 12), (37, 99, 168)


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


@pytest.fixture(scope="module", params=["benchmark", "interface"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Either page on disk."""
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    html = benchmark_page() if request.param == "benchmark" else interface_page()
    path.write_text(html, encoding="utf-8")
    return path


def test_verdict_plots_and_images_are_drawn(page: Path) -> None:
    pixels = screenshot(page, 1200, 13000)
    assert share(pixels[:400], ACCENT) > 0.0005
    assert share(pixels[400:], BLUE) > 0.00001
    assert share(pixels, MAGENTA) > 0.002
    assert share(pixels[:, :8], PAPER) == 1.0


def test_a_narrow_window_does_not_scroll_horizontally(page: Path) -> None:
    pixels = screenshot(page, 500, 15000)
    assert share(pixels, MAGENTA) > 0.002
    assert share(pixels[:, -6:], PAPER) == 1.0


def test_a_dark_browser_gets_a_dark_page(page: Path) -> None:
    pixels = screenshot(page, 1000, 1200, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    assert share(pixels[:, :8], NIGHT) == 1.0
