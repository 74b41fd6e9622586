"""The templates of all reports, how they write numbers, and the one script they may run.

A report's first screen alone, for a notebook: the verdict, its images and the models, without script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel

from counterpose_core.types import format_si
from counterpose_gateway.reports import numbers
from counterpose_gateway.reports.reasons import why_left_out
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.reports.text import changed_words

END_OF_FIRST_SCREEN = "<!-- end of the first screen -->"
"""Written by each report's template where its first screen ends."""

_SYMBOL = re.compile(r'<symbol id="([^"]+)".*?</symbol>\n?', re.DOTALL)
_SCRIPT = re.compile(r"<script>.*?</script>\n?", re.DOTALL)
_BODY_ENDS = "</main>"


def first_screen(report: str) -> str:
    """Cut a report after its first screen; of its images, those that are shown there remain."""
    shown, cut, rest = report.partition(END_OF_FIRST_SCREEN)
    if not cut:
        return _SCRIPT.sub("", report)
    _, main, images = rest.partition(_BODY_ENDS)

    def kept(symbol: re.Match[str]) -> str:
        return symbol[0] if f'href="#{symbol[1]}"' in shown else ""

    return shown + main + _SCRIPT.sub("", _SYMBOL.sub(kept, images))


SCRIPT = files("counterpose_gateway.reports").joinpath("templates/report.js").read_text(encoding="utf-8")
"""Sorting, arrow keys and copying; a report is complete without it."""

SCRIPT_SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode('ascii')}'"
"""The digest by which the content security policy allows the script, and no other."""

CONTENT_POLICY = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {SCRIPT_SOURCE}"

TEMPLATES = Environment(
    loader=PackageLoader("counterpose_gateway.reports", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals |= {
    "script": Markup(SCRIPT),
    "content_policy": Markup(CONTENT_POLICY),
    "end_of_first_screen": Markup(END_OF_FIRST_SCREEN),
    "badges": BADGES,
}


def document(config: BaseModel) -> str:
    """Write what a run depends on as JSON, in one order of names."""
    return json.dumps(config.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False)


_OF_NUMBERS = (
    "percent rare_percent signed share_interval signed_interval points points_interval duration count "
    "counted p_value decimal"
)
"""Functions of `numbers` that templates call by their names."""

TEMPLATES.filters |= {name: getattr(numbers, name) for name in _OF_NUMBERS.split()}
TEMPLATES.filters |= {each.__name__: each for each in (changed_words, document, format_si, why_left_out)}
