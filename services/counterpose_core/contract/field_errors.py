"""Fields that pydantic refuses, in sentences: no pattern, no type of Python's, no page of pydantic's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from counterpose_core.contract.editor_backends import EditorBackend
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean

M = TypeVar("M", bound=BaseModel)

MOST_NAMED = 5
ALTERNATIVE = re.compile(
    "|".join([r"(?:list|literal|function-\w+)\[.*\]|str|int|float|bool|dict", *get_args(EditorBackend)])
)
"""The part of a location that names one of several types of a field, not a part of the body."""

_SENTENCES = {
    "missing": "a value is required",
    "extra_forbidden": "no such field; correct its name, or leave it out",
    "string_pattern_mismatch": "is not written as such a text must be",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""By the type of error. What is not here keeps pydantic's words, from "must" on."""

_SUBJECT = re.compile(r"^(?:Input|String|List|Value|Dictionary|Tuple|Set|Data|Number)s? should ")


class FieldFault(ValueError):
    """A fault of the field at ``location``, found by a validator of the body around it."""

    def __init__(self, message: str, *location: str) -> None:
        super().__init__(message)
        self.location = location


def location(error: Mapping[str, Any]) -> tuple[int | str, ...]:
    """Return where the field of an error is: within the body whose validator found it, if one did."""
    fault = error.get("ctx", {}).get("error")
    return (*error["loc"], *(fault.location if isinstance(fault, FieldFault) else ()))


def sentence(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a field; of what was sent, only a name near to a permitted one is repeated.

    Args:
        error: an entry of pydantic's ``errors()``: type, msg, input and ctx.
    """
    kind, said = error["type"], str(error["msg"])
    if kind in ("value_error", "assertion_error"):
        return said.partition(", ")[2]
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}{_meant(error)}"
    worded = _SENTENCES.get(kind) or _SUBJECT.sub("must ", said).replace(" after validation", "")
    return re.sub(r"\ba valid (?=[aeiou])", "an ", worded).replace("a valid ", "a ")


def sentences(
    errors: Sequence[Mapping[str, Any]], hint: Callable[[Mapping[str, Any]], str] = lambda error: ""
) -> str:
    """Say what is wrong with the first of the fields that pydantic refuses, each after its place.

    Args:
        errors: the entries of pydantic's ``errors()``.
        hint: what to add to the sentence of one of them.
    """
    faults = (f"{place(location(each))}: {sentence(each)}{hint(each)}".removeprefix(": ") for each in errors)
    distinct = list(dict.fromkeys(faults))
    more = len(distinct) - MOST_NAMED
    return "; ".join([*distinct[:MOST_NAMED], *[f"and {more} more"] * (more > 0)])


def in_words(error: Exception) -> str:
    """Return an error's text; that of fields which pydantic refuses is `sentences`."""
    return sentences(error.errors(include_url=False)) if isinstance(error, ValidationError) else str(error)


def place(location: tuple[int | str, ...]) -> str:
    """Return where a field is, as "classifiers.0"; empty for the whole."""
    return ".".join(str(part) for part in location if ALTERNATIVE.fullmatch(str(part)) is None)


def checked(model: type[M], fields: Mapping[str, Any]) -> M:
    """Return a body with these fields.

    Raises:
        InvalidRequest: a field is missing, unknown or out of range; the sentence names it.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise InvalidRequest(sentences(errors, lambda each: _hint(each, model))) from error


def _hint(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    # To the caller's own program, his texts can be repeated.
    place, kind, given = error["loc"], error["type"], error["input"]
    if kind == "list_type" and isinstance(given, str):
        return f", such as [{given!r}]"
    if kind == "extra_forbidden" and len(place) == 1:
        return did_you_mean(str(place[0]), model.model_fields)
    if place == ("dataset",) and "/" in str(given):
        return f", not {given!r}; upload a folder first: client.datasets.upload(folder, name=...)"
    return ""


def _meant(error: Mapping[str, Any]) -> str:
    given, permitted = error.get("input"), re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return did_you_mean(given, permitted) if isinstance(given, str) and len(given) <= 200 else ""
