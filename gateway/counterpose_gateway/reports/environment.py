"""The templates of all reports, how they write numbers, and the one script they may run."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from counterpose_core.types import format_si
from counterpose_gateway.reports import numbers
from counterpose_gateway.reports.first_screen import END_OF_FIRST_SCREEN
from counterpose_gateway.reports.reasons import why_left_out
from counterpose_gateway.reports.text import changed_words

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
}
TEMPLATES.filters |= {
    "percent": numbers.percent,
    "rare_percent": numbers.rare_percent,
    "signed": numbers.signed,
    "share_interval": numbers.share_interval,
    "signed_interval": numbers.signed_interval,
    "points": numbers.points,
    "points_interval": numbers.points_interval,
    "duration": numbers.duration,
    "count": numbers.count,
    "counted": numbers.counted,
    "changed_words": changed_words,
    "p_value": numbers.p_value,
    "decimal": numbers.decimal,
    "format_si": format_si,
    "why_left_out": why_left_out,
}
