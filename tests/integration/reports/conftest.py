"""One browser and one page of each report, for all tests of how reports look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fakes.browser import CHROMIUM, Tab, browser
from fakes.report_pages import PAGES, magenta, stress_test_page


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab of the browser; each test opens what it looks at."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: `make system` installs Debian's")
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The reports on disk, by kind of run."""
    folder = tmp_path_factory.mktemp("reports")
    made = {kind: page(magenta) for kind, page in PAGES.items() if kind != "stress-test"}
    made["stress-test"] = stress_test_page()
    for kind, html in made.items():
        (folder / f"{kind}.html").write_text(html, encoding="utf-8")
    return {kind: folder / f"{kind}.html" for kind in made}


@pytest.fixture
def page(pages: Mapping[str, Path]) -> Path:
    """The report of a stress test."""
    return pages["stress-test"]
