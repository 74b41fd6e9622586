"""Whether a page serves everybody: axe, headings, names of images, focus, narrow screens, no script."""

from __future__ import annotations

from fakes.axe import violations
from fakes.browser import Tab

MODES = {"wide": (1300, 1000, False), "dark": (1300, 1000, True), "phone": (390, 844, False)}
"""Width and height of a window, and whether its colours are dark."""

_SHOWN = "((e) => e.checkVisibility({visibilityProperty: true}))"
_UNSEEN = f"""[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
  .filter({_SHOWN}).filter((e) => {{
    e.focus();
    const {{outlineStyle, outlineWidth}} = getComputedStyle(e);
    return document.activeElement === e && !(outlineStyle === 'solid' && parseFloat(outlineWidth) >= 2);
  }}).map((e) => e.outerHTML)"""
"""What can have the focus and does not show it."""
_NAMELESS = "[...document.images].filter((e) => !e.alt.trim()).map((e) => e.outerHTML)"
_FORMS = "[...document.querySelectorAll('form')].filter((e) => e.querySelector('button'))"


def said(tab: Tab) -> str:
    """The text that the page shows."""
    return str(tab.value("document.body.innerText"))


def hindrances(tab: Tab, address: str, mode: str, says: str) -> list[str]:
    """What hinders somebody on the page, a line each; ``says`` is what it has to say."""
    width, height, dark = MODES[mode]
    tab.open(address, width, height, dark=dark)
    # A copy is not asked for again, and so does not change while axe looks at it.
    tab.value("document.querySelectorAll('[hx-get]').forEach((e) => e.replaceWith(e.cloneNode(true)))")
    found = _unsaid(tab, says)
    if (headings := tab.value("document.querySelectorAll('h1').length")) != 1:
        found.append(f"{headings} headings of the first level")
    found += [f"an image without words: {each}" for each in tab.value(_NAMELESS)]
    found += violations(tab)
    # All drawers are open now.
    found += [f"does not show its focus: {each}" for each in tab.value(_UNSEEN)]
    if not tab.value("document.activeElement !== document.body"):
        found.append("nothing takes the focus")
    tab.ask("Emulation.setDeviceMetricsOverride", width=320, height=800, deviceScaleFactor=1, mobile=False)
    if (wide := tab.value("document.documentElement.scrollWidth")) != 320:
        found.append(f"{wide} pixels wide on a screen of 320")
    return found


def hindrances_without_script(tab: Tab, address: str, says: str) -> list[str]:
    """What the page does not say without script, or offers and cannot do, a line each."""
    tab.open(address, 1300, 1000, script=False)
    found = _unsaid(tab, says)
    controls = "[...document.querySelectorAll('button, select, a:not([href])')]"
    idle = tab.value(f"{controls}.filter((e) => !e.closest('form')).filter({_SHOWN}).map((e) => e.outerHTML)")
    found += [f"does nothing: {each}" for each in idle]
    if tab.value(f"{_FORMS}.length") != tab.value("document.forms.length"):
        found.append("a form without a button")
    if not tab.value(f"{_FORMS}.every((e) => e.method === 'post' && e.getAttribute('action'))"):
        found.append("a form that goes nowhere")
    return found


def _unsaid(tab: Tab, says: str) -> list[str]:
    return [] if says in said(tab) else [f"does not say {says!r}"]
