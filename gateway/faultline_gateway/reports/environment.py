"""The templates of all reports, and how they write numbers."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from faultline_core.types import format_si
from faultline_gateway.reports import numbers

TEMPLATES = Environment(
    loader=PackageLoader("faultline_gateway.reports", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "percent": numbers.percent,
    "signed": numbers.signed,
    "share_interval": numbers.share_interval,
    "signed_interval": numbers.signed_interval,
    "points": numbers.points,
    "points_interval": numbers.points_interval,
    "duration": numbers.duration,
    "count": numbers.count,
    "p_value": numbers.p_value,
    "decimal": numbers.decimal,
    "format_si": format_si,
}
