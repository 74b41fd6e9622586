"""A comparison of editors: stress tests of the same images and edits, one for each preset."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from counterpose._editor_page import page_of
from counterpose._files import write_text
from counterpose._paired_chance import agree, holm, mean_difference, sign_flip_p
from counterpose_core.contract.preservation import Fault
from counterpose_core.contract.regions import OF_MASKS, RegionOfEdits
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.services import ServiceList
from counterpose_core.contract.spending import Spending, added
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import BlobRef, Cost, Estimate, ItemKind

Figure = Literal["kept", "faulty edits", "faulty controls", "reconstruction PSNR in dB"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
EDITS: tuple[ItemKind, ...] = ("edit", "intervention")
CONTROLS: tuple[ItemKind, ...] = ("reconstruction",)
WORST = 3
WITHHELD = "objectionable"
"""The reason of a dropped edit whose image nobody is shown; the gateway's name for it."""
_EDITED: tuple[ItemKind, ...] = (*EDITS, *CONTROLS, "placebo", "lance-r")
_EVERY_DB = 100.0
"""What PSNRs lie below: the editor's, from 0, of an image that equals its original."""

Edit = tuple[str, str, int, str]
"""What identifies an edit in every run: its source, kind, slot and edited caption."""


class EditorRow(BaseModel, frozen=True):
    """What one preset did; of every share and mean, n counts source images, a group of them as one.

    ``region``: where its edits may change an image; None for everywhere.
    ``kept``: share of planned edits that every filter passed; ``dropped``: items that a filter did not pass,
    by reason; ``failed``: items that have no result, whose edits count as not kept.
    ``faulty_edits`` and ``faulty_controls``: share of kept images that changed what nobody asked for;
    ``faults``: how often each fault was seen, of edits and of controls. ``reconstruction_db``: mean PSNR of
    reconstructions, which an editor that edits a caption to itself in their place, as a server's, has not.
    ``seconds_an_item``: of the editor, for each of the ``items`` that it made images
    for, several where a preset tries several strengths; None where it spent none.
    """

    preset: str
    region: RegionOfEdits | None
    run: str
    sources: int
    kept: Estimate
    dropped: dict[str, int]
    failed: int
    faulty_edits: Estimate
    faulty_controls: Estimate
    faults: dict[str, dict[Fault, int]]
    reconstruction_db: Estimate
    items: int
    seconds_an_item: float | None
    cost: Cost


class EditorDifference(BaseModel, frozen=True):
    """The first preset less the second in one figure, on what both have: n counts sources, a group as one.

    ``left_out``: edits or controls of either that it lacks, such as one that not both kept of faulty edits.
    ``equal``: all n have this difference, and the interval is for others that n cannot rule out, each as far
    off as the figure can be, 1 or 100 dB. ``p`` is two-sided; ``p_adjusted`` is corrected by Holm's method
    over all differences of the comparison.
    """

    figure: Figure
    first: str
    second: str
    difference: Estimate
    equal: bool
    left_out: int
    p: float
    p_adjusted: float


class ShownEdit(BaseModel, frozen=True):
    """One editor's image of an edit; ``map`` shows what it changed, if that was measured.

    Both are None of an image that the run dropped as objectionable.
    """

    preset: str
    item: str
    said: str
    image: BlobRef | None
    map: BlobRef | None


class ShownPair(BaseModel, frozen=True):
    """The same edit of the same source by every editor."""

    source: BlobRef
    caption: str
    edited_caption: str
    edits: list[ShownEdit]


class EditorComparison(BaseModel, frozen=True):
    """Editors compared on the same images and edits.

    ``request``: what all runs were asked. ``differences``: of two presets that keep to different regions they
    leave out faults of edits, which a region tells by other rules, and more of them. ``unpaired``: edits that
    not every run ended, so that no difference has them. ``images``: what the page shows, as PNG in base64, by
    digest. ``spending``: what all runs together asked servers of others for; None if nothing.
    """

    dataset: str
    seed: int
    request: dict[str, Any]
    editors: list[EditorRow]
    differences: list[EditorDifference]
    unpaired: int
    worst: list[ShownPair]
    images: dict[BlobRef, str] = {}
    spending: Spending | None = Field(default=None, exclude_if=lambda spending: spending is None)

    def to_html(self) -> str:
        """Return the report as one HTML file, without script and without anything to load."""
        return page_of(self)

    def save_report(self, path: str | Path) -> Path:
        """Write the report to an HTML file and return its path; raises `InvalidRequest` if that cannot be."""
        return write_text(Path(path), self.to_html())

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        lines = [f"{'preset':16} {'kept':32} {'faulty edits':32} {'PSNR in dB':32}"]
        for row in self.editors:
            figures = f"{row.kept!s:32} {row.faulty_edits!s:32} {row.reconstruction_db}"
            lines.append(f"{row.preset:16} {figures}")
        told = [
            f"{each.figure}: {each.first} less {each.second} {each.difference}"
            f"{f', equal in all {each.difference.n}' * each.equal}, p {each.p_adjusted:.2g}"
            f", {each.left_out} left out"
            for each in self.differences
        ]
        spent = [] if self.spending is None else ["", "All runs together:", *self.spending.lines]
        return "\n".join([*lines, "", *told, *spent])


def distinct_presets(presets: Sequence[str], offered: Collection[str] = ()) -> list[str]:
    """Return the presets to compare, of those that a suite offers.

    Raises:
        InvalidRequest: there are fewer than two, one is named twice, or the suite has it not.
    """
    # Before any run is created: the first would go on without the second.
    if unknown := [name for name in presets if offered and name not in offered]:
        raise InvalidRequest(f"the suite has no preset {unknown[0]!r}: choose from {', '.join(offered)}")
    if len(presets) < 2 or len(set(presets)) < len(presets):
        raise InvalidRequest(f"name at least two presets, each once, to compare; not {list(presets)}")
    return list(presets)


def weights_of(services: ServiceList) -> str:
    """Return what tells the weights of the services apart that say which they have, classifiers excepted."""
    return "".join(
        f" {each.service} {each.model.id} {each.model.revision}"
        for each in services
        if each.model is not None and each.service != "classifiers"
    )


def comparison_key(request: StressTestCreate, inputs: str) -> str:
    """Return the idempotency key of a run, which an equal comparison of the same ``inputs`` takes up.

    ``inputs``: the digest of its images, and `weights_of` the services.
    """
    asked = f"{request.model_dump_json()} {inputs}"
    return f"compare-editors:{hashlib.sha256(asked.encode()).hexdigest()}"


class RunOfPreset(BaseModel, frozen=True):
    """An ended run of one preset with its summary and its items."""

    preset: str
    run: Run
    summary: StressTestSummary
    items: list[Item]


def compared(runs: Sequence[RunOfPreset], seed: int) -> EditorComparison:
    """Compare the runs; ``seed`` is of the bootstrap and of random signs."""
    generator = random.Random(seed)
    named = [(one, {_edit(item): item for item in one.items if item.kind in EDITS}) for one in runs]
    common = set.intersection(*(set(edits) for _, edits in named))
    ended = {key for key in common if all(_decided(edits[key]) for _, edits in named)}
    differences = list(_differences(runs, ended, generator))
    adjusted = holm([each.p for each in differences])
    requests = [one.run.resolved_config["request"] for one in runs]
    return EditorComparison(
        dataset=runs[0].run.dataset,
        seed=seed,
        request={
            name: value
            for name, value in requests[0].items()
            if all(each.get(name) == value for each in requests)
        },
        editors=[_row(one, generator) for one in runs],
        differences=[
            each.model_copy(update={"p_adjusted": p}) for each, p in zip(differences, adjusted, strict=True)
        ],
        unpaired=len({key[:3] for _, edits in named for key in edits}) - len(ended),
        worst=_worst({one.preset: edits for one, edits in named}, ended),
        spending=added(one.summary.spending for one in runs),
    )


def _edit(item: Item) -> Edit:
    told = "" if item.result is None else item.result.edited_caption or ""
    return item.item_group, f"{item.kind}/{item.edit_type}", item.slot, told


def _decided(item: Item) -> bool:
    return item.result is not None and item.state in ("done", "filtered")


def _region(one: RunOfPreset) -> RegionOfEdits | None:
    region: RegionOfEdits | None = one.run.resolved_config["request"].get("region")
    return region


def _row(one: RunOfPreset, generator: random.Random) -> EditorRow:
    means = {figure: _by_unit(_values(figure, one.items, None), _groups(one)) for figure in FIGURES}
    figures = [
        mean_difference(
            list(means[figure].values()), generator, (0.0, _EVERY_DB if "PSNR" in figure else 1.0)
        )
        for figure in FIGURES
    ]
    items = sum(item.result is not None for item in one.items if item.kind in _EDITED)
    seconds = one.summary.service_seconds.get("editor", 0.0)
    return EditorRow(
        preset=one.preset,
        region=_region(one),
        run=one.run.id,
        sources=len({item.item_group for item in one.items}),
        dropped=one.summary.dropped,
        failed=sum(item.state == "failed" for item in one.items),
        **dict(zip(("kept", "faulty_edits", "faulty_controls", "reconstruction_db"), figures, strict=True)),
        faults={
            name: dict(Counter(fault for item in one.items if item.kind in kinds for fault in _faults(item)))
            for name, kinds in (("edits", EDITS), ("controls", CONTROLS))
        },
        items=items,
        seconds_an_item=seconds / items if seconds and items else None,
        cost=one.summary.cost,
    )


def _groups(one: RunOfPreset) -> Mapping[str, str]:
    """Return the group of each source image that has one, such as the video of a frame."""
    groups: Mapping[str, str] = (one.run.resolved_config.get("grouping") or {}).get("groups", {})
    return groups


def _by_unit(values: Iterable[tuple[Edit, float]], groups: Mapping[str, str]) -> dict[str, float]:
    """Return the mean of each source image, or of its group, as runs count them."""
    found: dict[str, list[float]] = {}
    for (source, *_), value in values:
        found.setdefault(groups.get(source, source), []).append(value)
    return {unit: sum(each) / len(each) for unit, each in found.items()}


def _differences(
    runs: Sequence[RunOfPreset], ended: set[Edit], generator: random.Random
) -> Iterator[EditorDifference]:
    # What no mask bounds is measured as if nobody had given a region.
    masks = {one.preset: region if (region := _region(one)) in OF_MASKS else None for one in runs}
    for figure in FIGURES:
        values = {one.preset: dict(_values(figure, one.items, ended)) for one in runs}
        kinds = _MEANINGS[figure][0]
        planned = {one.preset: {_edit(item)[:3] for item in one.items if item.kind in kinds} for one in runs}
        for first, second in itertools.combinations(values, 2):
            if figure == "faulty edits" and masks[first] != masks[second]:
                continue
            both = sorted(values[first].keys() & values[second].keys())
            paired = ((key, values[first][key] - values[second][key]) for key in both)
            means = list(_by_unit(paired, _groups(runs[0])).values())
            if means:
                width = _EVERY_DB if "PSNR" in figure else 1.0
                yield EditorDifference(
                    figure=figure,
                    first=first,
                    second=second,
                    difference=mean_difference(means, generator, (-width, width)),
                    equal=agree(means),
                    left_out=len(planned[first] | planned[second]) - len(both),
                    p=sign_flip_p(means, generator),
                    p_adjusted=1.0,
                )


def _values(figure: Figure, items: Iterable[Item], ended: set[Edit] | None) -> Iterator[tuple[Edit, float]]:
    """Yield each item's value; of edits, those that ended everywhere, or all for None."""
    kinds, value_of = _MEANINGS[figure]
    for item in items:
        if item.kind in kinds and (ended is None or kinds is CONTROLS or _edit(item) in ended):
            value = value_of(item)
            if value is not None:
                yield _edit(item), value


def _is_kept(item: Item) -> float | None:
    return float(item.state == "done") if item.state in ("done", "filtered", "failed") else None


def _faults(item: Item) -> Sequence[Fault]:
    record = None if item.result is None else item.result.preservation
    return () if record is None or item.state != "done" else record.faults


def _has_fault(item: Item) -> float | None:
    record = None if item.result is None else item.result.preservation
    if record is None or item.state != "done" or (not record.faults and record.unmeasured):
        return None
    return float(bool(record.faults))


_MEANINGS: Mapping[Figure, tuple[Sequence[ItemKind], Callable[[Item], float | None]]] = {
    "kept": (EDITS, _is_kept),
    "faulty edits": (EDITS, _has_fault),
    "faulty controls": (CONTROLS, _has_fault),
    "reconstruction PSNR in dB": (
        CONTROLS,
        lambda item: None if item.result is None else item.result.psnr_db,
    ),
}


def _worst(named: Mapping[str, Mapping[Edit, Item]], ended: set[Edit]) -> list[ShownPair]:
    """The edits with the most faults, of different sources; then those of the poorest direction."""

    def badness(key: Edit) -> tuple[int, float]:
        results = [edits[key].result for edits in named.values()]
        faults = sum(len(each.preservation.faults) for each in results if each and each.preservation)
        directions = [each.scores.direction for each in results if each and each.scores]
        return -faults, min(directions, default=1.0)

    shown: dict[str, ShownPair] = {}
    for key in sorted(ended, key=lambda key: (badness(key), key)):
        if key[0] not in shown and len(shown) < WORST:
            shown[key[0]] = _pair({preset: edits[key] for preset, edits in named.items()})
    return list(shown.values())


def _pair(items: Mapping[str, Item]) -> ShownPair:
    first = next(iter(items.values()))
    assert first.result is not None
    return ShownPair(
        source=first.source_image,
        caption=first.result.caption,
        edited_caption=first.result.edited_caption or "",
        edits=[_shown(preset, item) for preset, item in items.items()],
    )


def _shown(preset: str, item: Item) -> ShownEdit:
    result = item.result
    assert result is not None
    record = result.preservation
    faults = "not measured" if record is None else ", ".join(record.faults) or "no fault"
    said = "kept" if item.state == "done" else f"dropped: {item.reason}"
    withheld = item.reason == WITHHELD
    return ShownEdit(
        preset=preset,
        item=item.id,
        said=f"{said}; {faults}",
        image=None if withheld else result.image,
        map=None if withheld or record is None else record.map,
    )


def refs_of(comparison: EditorComparison) -> list[BlobRef]:
    """Return the digests of the images that the page shows, each once."""
    refs = (
        ref
        for pair in comparison.worst
        for ref in (pair.source, *(each for edit in pair.edits for each in (edit.image, edit.map)))
    )
    return list(dict.fromkeys(ref for ref in refs if ref is not None))
