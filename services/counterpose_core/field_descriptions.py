"""What the fields of a model mean: the docstrings beneath them, which schemas and the command line show."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema


def field_description(model: type[BaseModel], field: str) -> str:
    """Return what a field means: the docstring beneath it, or the field's own description.

    Args:
        model: the model; its parents' fields count as its own.
        field: the field's name.

    Returns:
        One line; empty if nobody described the field, or where the program has no source.
    """
    texts = (_docstrings(each.__module__).get((each.__qualname__, field)) for each in model.__mro__)
    return model.model_fields[field].description or next(filter(None, texts), "")


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    # Read when somebody asks. Pydantic's own reading, as it makes each class, takes as long as all imports.
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    found: dict[tuple[str, str], str] = {}
    for model in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, text in pairwise(model.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as said)),
                ):
                    found[model.name, name] = " ".join(said.split())
    return found


class Described(BaseModel):
    """A model whose schema says of each field what `field_description` returns."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema with the descriptions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.__pydantic_fields__.items():
            shown = properties.get(name, properties.get(field.serialization_alias or field.alias))
            if shown is not None and (text := field_description(cls, name)):
                shown["description"] = text
        return schema
