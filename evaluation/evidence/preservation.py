"""The page about preservation: which planted faults are found, and how many right edits are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS

PRESERVATION, PHOTOGRAPHS = RESULTS / "preservation.json", RESULTS / "preservation-photographs.json"
REFUSALS = "false refusals"
REGIONS = {"region given": "With the region of the change given", "no region": "Without"}
PLANTED: Mapping[str, str] = {
    "shift": "shifts",
    "zoom": "crops and zooms",
    "reshape": "another form",
    "recolour": "all recoloured",
    "leak": "leaks, all of an edit",
    "over-edit": "something else changed, too",
    "ignored": "nothing changed",
}
PLANTED_TEXT = """\
## Faults that were planted

A fault is found if the edit is refused, and named if it is called by its own name. Where no region is
given, as in a run, nothing is called leaked or drifted."""
LIMITS_TEXT = """\
## The limits

How far edits of the calibration reach on both sides of a limit. An edit counts as ignored only below both
limits of `ignored`: one that keeps all texture has changed its colour."""
Part = Mapping[str, Any]


def preservation_page(file: Path = PRESERVATION, photographs: Path = PHOTOGRAPHS) -> str:
    """Write the page."""
    made: Part = json.loads(file.read_bytes())
    cutouts: Part = json.loads(photographs.read_bytes())
    regions: Mapping[str, Part] = made["test"]
    given = {name: part for name, part in regions.items() if REFUSALS in part}
    tables = {
        PLANTED_TEXT: table(("region", "planted", "found", "n", "named", "n"), _found(given)),
        "## The same by kind and size": table(
            ("region", "planted", "kind or size", "found", "n"), _by_kind(given)
        ),
        "## Right edits that are refused": table(("region", "edits", "refused", "n"), _refused(given)),
        "## Cut-outs before another ground": table(
            ("what the editor did", "refused", "n", "named", "n"), _photographs(cutouts)
        ),
        LIMITS_TEXT: table(("limit", "value", "let pass, up to", "not, from"), _limits(made)),
    }
    body = [line for text, rows in tables.items() for line in (text, "", *rows, "")][:-1]
    return page("Preservation and planted faults", _finding(given), body, _how(made, cutouts))


def _finding(given: Mapping[str, Part]) -> str:
    told = []
    for name, part in given.items():
        shift, refused = _estimate(part["shift"]["found"]), _estimate(part[REFUSALS]["all"])
        told.append(
            f"{REGIONS[name]}, {figure(shift)} of planted shifts are found (n = {size(shift)}), and "
            f"{figure(refused)} of right edits are refused (n = {size(refused)})."
        )
    return " ".join(told)


def _estimate(part: Part | None) -> Estimate | None:
    return None if part is None else Estimate.model_validate(part)


def _found(given: Mapping[str, Part]) -> Iterator[list[str]]:
    for region, part in given.items():
        for group, words in PLANTED.items():
            if (planted := part.get(group)) is not None:
                both = (_estimate(planted.get(name)) for name in ("found", "named"))
                yield [region, words, *(cell for each in both for cell in cells(each))]


def _by_kind(given: Mapping[str, Part]) -> Iterator[list[str]]:
    for region, part in given.items():
        for group, words in PLANTED.items():
            planted = part.get(group, {})
            sizes = {name.removeprefix("found, "): each for name, each in planted.items() if ", " in name}
            for name, each in (sizes | planted.get("found by kind", {})).items():
                # An edit may have two leaks, and each has a kind of its own.
                one = "single leaks" if group == "leak" and name not in sizes else words
                yield [region, one, name, *cells(_estimate(each))]


def _refused(given: Mapping[str, Part]) -> Iterator[list[str]]:
    for region, part in given.items():
        for name, each in part[REFUSALS].items():
            if name != "by fault":
                yield [region, name, *cells(_estimate(each))]


def _photographs(found: Part) -> Iterator[list[str]]:
    for name, answers in found["answers"].items():
        both = (_estimate(answers.get(each)) for each in ("refused", "named"))
        yield [name, *(cell for each in both for cell in cells(each))]


def _limits(made: Part) -> Iterator[list[str]]:
    ends: Mapping[str, Part] = made["limits by the calibration"]
    for name, value in made["limits"].items():
        reach = ends.get(name)
        shown = [NONE, NONE] if reach is None else [f"{reach[end]:g}" for end in ("let pass", "fault")]
        yield [f"`{name}`", f"{value:g}", *shown]


def _how(made: Part, cutouts: Part) -> list[str]:
    stretches: Mapping[str, Part] = made["stretches"]
    told = "; ".join(
        f"the {name} has scenes of the split {part['split']} from {part['first']:,}, and edits as servers "
        f"send them: {', '.join(part['servers'])}"
        for name, part in stretches.items()
    )
    return [
        "- `make validate-preservation`: faults planted in true counterfactuals of the rendered world. The "
        "limits were set on the calibration, and the figures are of the test, which shares no scene, fault "
        f"or server with it: {told}.",
        f"- `make validate-preservation FOLDER=...`: {cutouts['cutouts']} photographic cut-outs.",
        "",
        "[What is measured, and how](../design/preservation.md).",
    ]
