"""axe-core in a page of the test browser: what violates WCAG or good practice."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fakes.browser import Tab

AXE = Path(__file__).parents[1] / "vendor" / "axe-core" / "axe.min.js"
DIGEST = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

_OPEN_ALL = """document.querySelectorAll('details').forEach((each) => {
  each.removeAttribute('name');
  each.open = true;
})"""

# The page's policy lets nothing be fetched, so nothing is preloaded.
_RUN = """axe.run(document, {preload: false, resultTypes: ['violations']}).then((found) => found.violations
  .map((rule) => `${rule.id}: ${rule.nodes.length} times, first ${rule.nodes[0].html} `
    + rule.nodes[0].failureSummary))"""


@cache
def _script() -> str:
    content = AXE.read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGEST, f"{AXE.name} is not the released file"
    return content.decode("utf-8")


def violations(tab: Tab) -> list[str]:
    """What axe objects to in the page that a tab shows, all its drawers open; a line a rule."""
    tab.value(_OPEN_ALL)
    tab.value(f"{_script()}; 0")
    found: list[str] = tab.value(_RUN)
    return found
