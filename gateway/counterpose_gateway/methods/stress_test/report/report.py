"""The report of a stress test: one self-contained HTML file, the findings first."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from counterpose_core.commands import operations_command, repeat_command, repeat_notes
from counterpose_core.contract.preservation import IMAGES, MEANINGS
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import ImagesOutsideSuite
from counterpose_gateway.methods.stress_test.report.baseline import baseline_rows
from counterpose_gateway.methods.stress_test.report.classes import (
    class_accuracy_plot,
    class_sentences,
    yield_plot,
)
from counterpose_gateway.methods.stress_test.report.downloads import downloads
from counterpose_gateway.methods.stress_test.report.figures import (
    accuracy_plot,
    filter_rows,
    plotted,
    sensitivity_plot,
    shown_rows,
)
from counterpose_gateway.methods.stress_test.report.findings import (
    SHOWN_FINDINGS,
    ShownFinding,
    findings_of,
    first_of,
    shown_findings,
)
from counterpose_gateway.methods.stress_test.report.gallery import (
    build_gallery,
    control_of,
    item_links,
    named_items,
)
from counterpose_gateway.methods.stress_test.report.interventions import first_example, shown_interventions
from counterpose_gateway.methods.stress_test.report.operations import operations_context
from counterpose_gateway.methods.stress_test.report.shown_items import ShownItems
from counterpose_gateway.methods.stress_test.report.tables import (
    class_rows,
    kind_rows,
    model_rows,
    share_explained,
)
from counterpose_gateway.methods.stress_test.report.trust import trust
from counterpose_gateway.methods.stress_test.summary.summary import SECTIONS
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album


def render(
    summary: StressTestSummary,
    run: Run,
    items: Sequence[Item] | ShownItems,
    image: Callable[[str], bytes],
    operations: Iterable[Item] = (),
) -> str:
    """Write the report of all items, or of those shown of a large run.

    ``image`` returns the bytes of an image by its reference; ``operations`` are the items of operations.

    The opened report makes no request, and a missing image leaves a gap instead of an error.
    """
    album = Album(image)
    if not isinstance(items, ShownItems):
        items = ShownItems(items, findings_of(summary, items), _kept(items))
    found = _findings(summary, items, album)
    config = StressTestConfig.model_validate(summary.config)
    interventions = shown_interventions(summary, items.items, album, plotted(summary))
    own = None if summary.edit_types else first_example(summary, interventions)
    context = {
        **operations_context(summary, run, operations, album),
        "summary": summary,
        "run": run,
        **found,
        "baseline": baseline_rows(summary.baseline, album),
        "models": model_rows(summary, found["findings"]),
        "share_explained": share_explained(summary),
        "refused": summary.suite_fit if run.problem and run.problem.code == ImagesOutsideSuite.code else None,
        # What failed stands beside them, in a place of its own.
        "lines": [line for line in summary.verdict.splitlines() if line != str(summary.failure)],
        "by_class": class_rows(summary),
        "by_kind": kind_rows(summary),
        "trust": trust(summary),
        "preserved_images": IMAGES,
        "fault_meanings": MEANINGS,
        "sections": [
            *(f"stress_test/sections/{name}.html.j2" for name in SECTIONS),
            "stress_test/judges.html.j2",
        ],
        "interventions": interventions,
        "own_example": own,
        "redrawn": control_of(own or found["hardest"], items.items, album, summary.run_id),
        **_figures(summary),
        "weights": _weights(items.items),
        "command": repeat_command(config.request, config.proof),
        "has_levels": config.preset is not None and config.preset.capabilities.levels,
        "by_operations": operations_command(config.request),
        "command_notes": repeat_notes(config.request) + _unseeded(config),
        "config": json.dumps(summary.config, indent=2, sort_keys=True, ensure_ascii=False),
    }
    # The album is complete only now.
    return TEMPLATES.get_template("stress_test/report.html.j2").render(context, images=album.images)


def _findings(summary: StressTestSummary, seen: ShownItems, album: Album) -> dict[str, Any]:
    """The findings, the gallery without their images, and links to both."""
    items, findings = seen.items, seen.findings
    made = {item.id: (item, item.result) for item in items if item.result is not None}
    shown = shown_findings(summary, findings, made, album)
    hero = first_of(shown, made, album, summary.run_id)
    if hero is not None:
        shown = [hero if one.anchor == hero.anchor else one for one in shown]
    in_cards = {pair.item for found in shown for pair in found.pairs}
    gallery = build_gallery(
        items,
        album,
        run=summary.run_id,
        seed=summary.seed,
        named=named_items(summary),
        # Without a finding worth the first place, the hardest of all edits takes it, even if a hint has it.
        without=in_cards if hero else (),
        kept=seen.kept,
    )
    return {
        "hero": hero,
        "hardest": gallery.pairs[0] if hero is None and gallery.pairs else None,
        "findings": shown,
        "first_places": _first_places(shown, gallery.shown),
        "more_findings": findings[SHOWN_FINDINGS:],
        "downloads": downloads(summary, findings),
        "gallery": gallery,
        "links": item_links(items, in_cards | gallery.shown),
    }


def _unseeded(config: StressTestConfig) -> list[str]:
    if config.preset is None or config.preset.capabilities.seeded:
        return []
    return ["the editor takes no seed: the same command makes other images"]


def _kept(items: Sequence[Item]) -> int:
    """The number of edits that were kept."""
    return sum(item.kind == "edit" and item.state == "done" and item.result is not None for item in items)


def _first_places(shown: Sequence[ShownFinding], in_gallery: Collection[str]) -> set[tuple[str, str]]:
    """Finding and item of the first place of each item outside the gallery: only one may bear its name."""
    first: dict[str, str] = {}
    for found in shown:
        for pair in found.pairs:
            first.setdefault(pair.item, found.anchor)
    return {(anchor, item) for item, anchor in first.items() if item not in in_gallery}


def _figures(summary: StressTestSummary) -> dict[str, Any]:
    return {
        "accuracy": accuracy_plot(summary),
        "rows": shown_rows(summary),
        "sensitivity": sensitivity_plot(summary),
        "class_yields": yield_plot(summary),
        "class_accuracy": class_accuracy_plot(summary, plotted(summary)),
        "class_sentences": class_sentences(summary),
        "filters": filter_rows(summary),
    }


def _weights(items: Sequence[Item]) -> dict[str, list[str]]:
    """The weights that each service used; more than one means that they changed during the run."""
    answered: dict[str, set[str]] = {}
    for item in items:
        for service, weights in (item.result.models if item.result else {}).items():
            answered.setdefault(service, set()).add(weights)
    return {service: sorted(weights) for service, weights in sorted(answered.items())}
