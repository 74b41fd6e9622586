"""Which refused fields of a request body have a code of their own.

Apart from the shared handlers, because only the gateway's bodies have quotas and edit types.
"""

from __future__ import annotations

from faultline_core.errors import QuotaExceeded, UnknownEditType
from faultline_http.exception_handlers import FieldError, FieldRule

QUOTAS = frozenset(
    ("body", field) for field in ("limit", "max_edits_per_image", "lance_r_edits_per_image", "n", "real")
)
"""Fields whose upper bound is how much a run may ask for."""


def _above_quota(error: FieldError) -> bool:
    return error["type"] == "less_than_equal" and error["loc"] in QUOTAS


def _unknown_edit_type(error: FieldError) -> bool:
    return error["type"] == "literal_error" and "edit_types" in error["loc"]


# A request above its quota is told so first: the rest of it need not be right.
FIELD_RULES = (FieldRule(QuotaExceeded, _above_quota), FieldRule(UnknownEditType, _unknown_edit_type))
