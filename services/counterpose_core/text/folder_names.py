"""What a folder's images are called: its own name, that in a file of names, or that of its WordNet id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from counterpose_core.errors import InvalidRequest
from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_core.text.plain_text import strip_invisible

NAMES = "names.json"
"""File of names that a folder of images may hold."""

_WORDNET_ID = re.compile(r"(?P<id>n\d{8})(?:[-_. ]+(?P<after>.*))?|(?P<before>.+?)[-_. ]+(?P<last>n\d{8})")
_TELLS = 3
"""So many of the folders that were named are spelt out."""


def folder_classes(folders: Iterable[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the class that each folder's images are of.

    It is the name that is given, else that of ImageNet-1k for a WordNet id, else the words beside one
    (``n02085620-Chihuahua``), else the folder's own.

    Args:
        folders: the names of folders, such as "boat" or "n02690373".
        given: class names by folder, which come first; it may name folders that do not exist, as a list of
            all of ImageNet does. A folder given its own name keeps it.

    Raises:
        InvalidRequest: a folder is named by an id alone that ImageNet-1k does not have and no name is given,
            two ids have the same words, or ``given`` names none of the folders.
    """
    given = given or {}
    found = dict.fromkeys(folders)
    if given and not given.keys() & found.keys():
        raise InvalidRequest(
            f"the names are for {_shown(next(iter(given)))} and others, but no folder is called so; "
            f"one is called {_shown(min(found, default=''))}"
        )
    classes = {folder: given[folder] if folder in given else _own_class(folder) for folder in found}
    _require_apart([folder for folder in found if folder not in given], classes)
    return classes


def name_of_id(name: str) -> str | None:
    """Return what a WordNet id names, alone or beside words as in ``n02085620-Chihuahua``; None without one.

    It is ImageNet-1k's name of the id, else the words.
    """
    match = _WORDNET_ID.fullmatch(name)
    if match is None:
        return None
    words = (match["after"] or match["before"] or "").replace("_", " ").strip()
    has_letters = any(letter.isalpha() for letter in words)
    return class_names().get(match["id"] or match["last"]) or (words if has_letters else None)


def _own_class(folder: str) -> str:
    name = name_of_id(folder)
    if name is None and _WORDNET_ID.fullmatch(folder):
        # As a class, the id would be in every caption and prompt.
        raise InvalidRequest(
            f"the folder {folder!r} is a WordNet id that ImageNet-1k does not have; name its class in "
            f'{NAMES}: {{"{folder}": "..."}}'
        )
    return folder if name is None else name


def _require_apart(folders: Iterable[str], classes: Mapping[str, str]) -> None:
    """Refuse two ids beside equal words, such as those of both kinds of crane, which would be one class."""
    first: dict[str, tuple[str, str]] = {}
    for folder in folders:
        if match := _WORDNET_ID.fullmatch(folder):
            number = match["id"] or match["last"]
            other, other_number = first.setdefault(classes[folder], (folder, number))
            if other_number != number:
                raise InvalidRequest(
                    f"the folders {other!r} and {folder!r} would both be called {classes[folder]!r}; name "
                    f"them in {NAMES}"
                )


def notes_on_names(classes: Mapping[str, str]) -> list[str]:
    """Say which folders' images have another class than the folder's name; nothing if none have.

    ``classes``: the class by folder.
    """
    changed = [(folder, name) for folder, name in classes.items() if folder != name]
    if not changed:
        return []
    told = ", ".join(f"{_shown(folder)} is {_shown(name)}" for folder, name in changed[:_TELLS])
    others = f", and {len(changed) - _TELLS} more" if len(changed) > _TELLS else ""
    return [f"classes that are not called as their folders: {told}{others}"]


def read_names(path: Path) -> dict[str, str]:
    """Read class names by folder.

    A file that ends in ``.json`` is ``{"n02690373": "airliner", ...}``. Any other has a line for each folder:
    its name, a tab or a space, and the class, such as ``n02690373 airliner``.

    Raises:
        InvalidRequest: the file cannot be read, is not of this form, or names a folder twice.
    """
    try:
        # Excel and PowerShell write a mark before the first letter.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read the names {str(path)!r}: {error}") from error
    return _object(path, text) if path.suffix.lower() == ".json" else _lines(path, text)


def _object(path: Path, text: str) -> dict[str, str]:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise _no_names(path) from error
    if not isinstance(pairs, _Pairs):
        raise _no_names(path)
    names: dict[str, str] = {}
    for folder, name in pairs:
        if not isinstance(name, str) or not name.strip():
            raise InvalidRequest(f"{str(path)!r} gives {_shown(folder)} no name; write a text")
        _name_once(path, names, folder, name)
    return names


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object, also those of one key."""


def _lines(path: Path, text: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            folder, _, name = line.strip().partition("\t" if "\t" in line.strip() else " ")
            if not name.strip():
                raise InvalidRequest(f"line {number} of {str(path)!r} is not a folder and a name")
            _name_once(path, names, folder.strip(), name.strip())
    return names


def _name_once(path: Path, names: dict[str, str], folder: str, name: str) -> None:
    if names.setdefault(folder, name) != name:
        raise InvalidRequest(f"{str(path)!r} gives {_shown(folder)} two names; keep one")


def _no_names(path: Path) -> InvalidRequest:
    return InvalidRequest(f'{str(path)!r} is not a JSON object such as {{"n02690373": "airliner"}}')


def _shown(text: str) -> str:
    return repr(strip_invisible(text))
