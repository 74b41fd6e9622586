"""A user's own change of words, as a body and as a line of text."""

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from counterpose_core.contract.base import ClientBody
from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.caption_diff import words

ARROW = "=>"

Phrase = Annotated[str, Field(max_length=200)]


class Intervention(ClientBody):
    """A change of words that the user chose, made in every caption that it applies to (LANCE, fig. 11)."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [side], "properties": {side: {"minLength": 1}}} for side in ("removed", "added")
            ]
        }
    )

    removed: Phrase = ""
    """Whole words to replace, case ignored; empty to append the added words to every caption."""
    added: Phrase = ""
    """Words to put in their place; empty to delete the removed words."""

    @field_validator("removed", "added")
    @classmethod
    def _is_words(cls, value: str) -> str:
        value = " ".join(value.split())
        if value and not words(value):
            raise ValueError(f"{value!r} contains no word")
        return value

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.removed and not self.added:
            raise ValueError("an intervention must remove words, add words, or both")
        if self.key[0] == self.key[1]:
            raise ValueError(f"{self.removed!r} is replaced by the same words; name other words")
        return self

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The removed and added words without case; equal for equal interventions."""
        removed, added = ([word.key for word in words(text)] for text in (self.removed, self.added))
        return tuple(removed), tuple(added)

    def in_words(self) -> str:
        """Return the change in words: “husky” becomes “poodle”."""
        if self.removed and self.added:
            return f"“{self.removed}” becomes “{self.added}”"
        return f"“{self.added}” is added" if self.added else f"“{self.removed}” is taken out"


def interventions_of(given: Iterable[str | Intervention]) -> list[Intervention]:
    """Parse interventions such as ``"husky=>schnauzer,poodle"``, and keep `Intervention` objects.

    Raises:
        InvalidRequest: a line is not an intervention.
    """
    found: list[Intervention] = []
    for each in given:
        found += [each] if isinstance(each, Intervention) else _parsed(each)
    return found


def _parsed(line: str) -> list[Intervention]:
    """Return one intervention for each of the comma-separated choices after the arrow."""
    removed, arrow, added = line.partition(ARROW)
    choices = [choice.strip() for choice in added.split(",")]
    wrong = not arrow or ARROW in added or (len(choices) > 1 and not all(choices))
    if wrong or (not removed.strip() and not added.strip()):
        raise InvalidRequest(
            f"cannot read the edit {line!r}: write 'old words{ARROW}new words, or other ones', "
            f"'{ARROW}words to add' or 'words to remove{ARROW}'"
        )
    try:
        return [Intervention(removed=removed.strip(), added=choice) for choice in choices]
    except ValidationError as error:
        raise InvalidRequest(f"cannot read the edit {line!r}: {in_words(error)}") from error
