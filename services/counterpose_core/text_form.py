"""The form of a text in words: what a refusal says in place of the pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class TextForm:
    """Annotation behind a field's bounds and pattern: a text that breaks one is refused with ``words``.

    The schema keeps pattern and bounds. ``words`` go on after the field's name, as "must be a digest".
    """

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="text_form", custom_error_message=self.words
        )
