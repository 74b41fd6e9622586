"""The report in a real browser: Chromium renders it wide and narrow, light and dark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fakes.browser import CHROMIUM, screenshot, share
from fakes.recorder import recorded_run
from fakes.results import EDITED, Ledgered, fake_config
from faultline_core.images.codecs import encode_raw
from faultline_gateway.methods.stress_test.report.report import render
from faultline_gateway.methods.stress_test.summary.summary import summarize

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

MAGENTA = (255, 0, 255)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose originals are all magenta, so that they can be told from everything else."""
    ledgered = Ledgered()
    after = {"steady": 0.9, "leaning": 0.2}
    ledgered.stress([f"source-{index}" for index in range(8)], dict.fromkeys(EDITED, after))
    originals = {item.source_image for item in ledgered.items}
    flat = encode_raw(np.full((64, 64, 3), MAGENTA, dtype=np.uint8))
    run = recorded_run(fake_config(), ledgered.items)
    html = render(
        summarize(run, ledgered.items),
        run,
        ledgered.items,
        lambda ref: flat if ref in originals else ledgered.world.store.get(ref),
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


def test_verdict_plots_and_images_are_drawn(page: Path) -> None:
    pixels = screenshot(page, 1200, 12000)
    assert pixels.shape == (12000, 1200, 3)
    assert share(pixels[:400], (194, 65, 12)) > 0.0005  # the verdict's accent
    assert share(pixels[400:2200], (37, 99, 168)) > 0.0002  # dots of the plots
    assert share(pixels, MAGENTA) > 0.005
    assert share(pixels[:, :8], (250, 249, 247)) == 1.0


def test_a_narrow_window_does_not_scroll_horizontally(page: Path) -> None:
    pixels = screenshot(page, 500, 8000)
    assert share(pixels, MAGENTA) > 0.01
    assert share(pixels[:, -6:], (250, 249, 247)) == 1.0


def test_a_dark_browser_gets_a_dark_page(page: Path) -> None:
    pixels = screenshot(page, 1000, 1200, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    assert share(pixels[:, :8], (20, 20, 19)) == 1.0
    assert pixels.mean() < 80
