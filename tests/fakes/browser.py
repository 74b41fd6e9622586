"""Pages as Chromium renders them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from faultline_core.images.codecs import Pixels, decode_image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 90


def screenshot(page: Path, width: int, height: int, *flags: str) -> Pixels:
    """What Chromium draws of the page, uint8 (height, width, 3)."""
    assert CHROMIUM is not None
    target = page.with_name(f"{width}x{height}{'-'.join(flags)}.png".replace("/", "-"))
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={page.parent / 'profile'}",
        f"--window-size={width},{height}",
        f"--screenshot={target}",
        *flags,
        page.as_uri(),
    ]
    subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
    return decode_image(target.read_bytes())


def share(pixels: Pixels, colour: tuple[int, int, int], slack: int = 3) -> float:
    """Share of the pixels that have a colour."""
    return float(np.mean(np.all(np.abs(pixels.astype(int) - colour) <= slack, axis=-1)))
