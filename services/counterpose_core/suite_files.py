"""Suite files: read by name or path, each on the base that it names."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from counterpose_core.contract.field_errors import sentences
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_core.text.near_names import did_you_mean

JUDGED_BY = {"clip": "scorer", "encoder": "encoder", "judge": "judge"}
"""The section that holds the model of each judge."""
SHIPPED = resources.files("counterpose_core") / "suites"


def suite_names() -> list[str]:
    """Return the names of the suites that ship with Counterpose."""
    return sorted(Path(entry.name).stem for entry in SHIPPED.iterdir() if entry.name.endswith(".toml"))


def suite_sections(name_or_file: str, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the sections of a suite; those that a file leaves out are its base's.

    Args:
        name_or_file: a name of `suite_names`, or the path of a TOML file.
        above: the files whose base this is, the first one first.

    Raises:
        UnknownModel: no suite has this name.
        InvalidRequest: the file cannot be read, or is its own base.
    """
    path = Path(name_or_file)
    # The suffix decides, not whether the file exists: a misspelt file name must not select a suite.
    if path.suffix != ".toml":
        own, folder = tomllib.loads(_shipped(name_or_file)), None
    else:
        path = path.absolute()
        if path.resolve() in above:
            raise InvalidRequest(f"the suite file {str(path)!r} is its own base; name another one")
        own, folder = _beside(path, _table(path)), path.parent
    base = own.pop("base", None)
    if base is None:
        return own
    if not isinstance(base, str):
        raise InvalidRequest(f"base of the suite file {str(path)!r} must be a suite's name, or a .toml file")
    below = str(folder / base) if folder is not None and base.endswith(".toml") else base
    inherited = suite_sections(below, above if folder is None else (*above, path.resolve()))
    if "editor" in own:
        # It was measured of the base's generator.
        inherited.pop("generator_gap", None)
    # A calibration is of the base's model, and says nothing of another one.
    replaced = {judge for judge, section in JUDGED_BY.items() if section in own}
    if "calibrations" in inherited:
        known = inherited["calibrations"]
        inherited["calibrations"] = {name: known[name] for name in known if name not in replaced}
    return inherited | {"name": path.stem} | own


def _shipped(name: str) -> str:
    names = suite_names()
    if name not in names:
        raise UnknownModel(
            f"no suite is named {name!r}{did_you_mean(name, names)}; choose one of {', '.join(names)}, or a "
            ".toml file"
        )
    return (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidRequest(f"there is no suite file {str(path)!r}; correct its path") from error
    except OSError as error:
        raise InvalidRequest(f"the suite file {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidRequest(f"the suite file {str(path)!r} is not TOML: {error}") from error


def _beside(path: Path, sections: dict[str, Any]) -> dict[str, Any]:
    """Take the path of a file of prompts as relative to the file that names it."""
    perturber = sections.get("perturber")
    if not isinstance(perturber, dict) or not isinstance(perturber.get("prompts"), str):
        return sections
    return sections | {"perturber": perturber | {"prompts": str(path.parent / perturber["prompts"])}}


def section_faults(error: ValidationError, known: Sequence[str]) -> str:
    """Say what is wrong with the sections of a suite, of those that are ``known``."""
    errors = error.errors(include_url=False)
    of_sections = {str(each["loc"][0]): each["type"] for each in errors if len(each["loc"]) == 1}
    absent = [name for name, kind in of_sections.items() if kind == "missing"]
    unknown = [name for name, kind in of_sections.items() if kind == "extra_forbidden"]
    within = [each for each in errors if str(each["loc"][0]) not in (*absent, *unknown)]
    faults = [f"{name!r} is no section{did_you_mean(name, known)}" for name in unknown]
    faults += [sentences(within)] if within else []
    if absent:
        names = ", ".join(absent)
        faults.append(f'it lacks {names}; write `base = "miniature"` at its top, and it has that suite\'s')
    return "; ".join(faults)
