"""The page about stress tests compared with rendered truth, preset by preset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, size, table
from evaluation.paths import RESULTS
from evaluation.validity.report import Agreement, PresetReport, Validity, Verdict

VALIDITY = RESULTS / "validity.json"
TOOL = "counterpose"
BASELINES = {
    "lance-r": "random edits (LANCE-R)",
    "class-name-generation": "images from class names, without inversion",
    "edit-type-mean": "mean of the edit type",
}
TYPE_COLUMNS = ("preset", "type", "kept", "n", "changed as asked", "nothing else changed", "label kept", "n")
VERDICTS: tuple[Verdict, ...] = ("true", "false-alarm", "undecided")
Get = Callable[[PresetReport], Estimate | None]
FIGURES: tuple[tuple[str, str, Get], ...] = (
    (
        "planted bugs found, true drop 0.3 or more",
        "≥ 0.8",
        lambda one: one.detection.recall_of_strong,
    ),
    ("planted bugs found", NONE, lambda one: one.detection.recall),
    (
        "the same with classes of insights exchanged",
        NONE,
        lambda one: one.detection.recall_when_permuted,
    ),
    ("significant insights that are true", "≥ 0.8", lambda one: one.detection.precision),
    ("significant insights that are false alarms", NONE, lambda one: one.detection.false_alarms),
    (
        "controls with any false alarm",
        "≤ 0.2",
        lambda one: one.detection.controls_with_a_false_alarm,
    ),
    ("rank correlation of estimated and true drop over cells", "≥ 0.7", lambda one: _tool(one).spearman),
    ("the same within classifiers, mean", "≥ 0.5", lambda one: _tool(one).spearman_within_models),
    ("the same with drops measured from reconstructions", NONE, lambda one: _beyond(one)),
    (
        "its ceiling: rank correlation of two halves of the truth",
        NONE,
        lambda one: one.reliability_of_the_truth,
    ),
    ("mean absolute error of a drop", NONE, lambda one: _tool(one).mean_absolute_error),
    ("calibration slope", NONE, lambda one: _tool(one).calibration_slope),
    ("95 % intervals that contain the true drop", NONE, lambda one: _tool(one).intervals_with_the_truth),
    ("planned edits kept", "≥ 0.3", lambda one: one.edits["all"].kept),
    ("kept edits changed as asked", NONE, lambda one: one.edits["all"].success),
    ("kept edits with nothing else changed", NONE, lambda one: one.edits["all"].fidelity),
    ("kept edits with their label kept", NONE, lambda one: one.edits["all"].label),
    ("edits the image gate keeps that are good (precision)", NONE, lambda one: one.image_gate.precision),
    ("good edits that the image gate keeps (recall)", NONE, lambda one: one.image_gate.recall),
    ("answers changed by reconstruction alone", "≤ 0.03", lambda one: one.reconstruction.changed),
    ("oracle on edited images labelled by eye, all attributes", NONE, lambda one: _by_eye(one)),
)


def validity_page(file: Path = VALIDITY) -> str:
    """Write the page."""
    presets = Validity.model_validate_json(file.read_bytes()).presets
    names = list(presets)
    body = [
        *table(("figure", "aim", *_twice(names)), _figures(presets)), "",
        "## Significant insights, by verdict", "",
        *table(("preset", *VERDICTS, "planted bugs not found"), _verdicts(presets)), "",
        "## Agreement with the truth: Counterpose and baselines", "",
        *table(("estimate of a drop", *_twice(names)), _baselines(presets)), "",
        "## Edits kept, by type", "",
        *table(TYPE_COLUMNS, _types(presets)), "",
        "## Aims", "",
        *table(("preset", "aim", "target", "reached", "n", "met"), _aims(presets)),
    ]  # fmt: skip
    how = [line for name, one in presets.items() for line in _command(name, one)]
    about = [
        "",
        "The true counterfactual of every edit is rendered and shown to the same classifiers. A cell is one",
        "classifier, class and change of one attribute. Nothing was chosen or tuned on these seeds.",
        "[How it works](../design/validity.md).",
    ]
    return page("Stress tests compared with rendered truth", finding(presets), body, [*how, *about])


def finding(presets: Mapping[str, PresetReport]) -> str:
    """Say what the first preset with planted bugs finds."""
    name, one = next((name, one) for name, one in presets.items() if one.planted_bugs)
    found, true = one.detection.recall_of_strong, one.detection.precision
    return (
        f"Under `{name}`, Counterpose finds {figure(found)} of the planted bugs whose true drop is 0.3 or "
        f"more (n = {size(found)}), and {figure(true)} of its significant insights are true "
        f"(n = {size(true)})."
    )


def _tool(one: PresetReport) -> Agreement:
    compared = one.agreement[TOOL]
    assert isinstance(compared, Agreement)
    return compared


def _beyond(one: PresetReport) -> Estimate | None:
    beyond = one.agreement_beyond_reconstruction
    return None if beyond is None else beyond.spearman


def _by_eye(one: PresetReport) -> Estimate | None:
    return None if one.oracle.edited is None else one.oracle.edited["all"]


def _twice(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield from (f"`{name}`", "n")


def _figures(presets: Mapping[str, PresetReport]) -> Iterator[list[str]]:
    for title, aim, get in FIGURES:
        yield [title, aim, *(cell for one in presets.values() for cell in cells(get(one)))]


def _verdicts(presets: Mapping[str, PresetReport]) -> Iterator[list[str]]:
    for name, one in presets.items():
        found = [finding.verdict for finding in one.detection.findings]
        missed = [bug for bug in one.planted_bugs if bug not in one.planted_bugs_found]
        yield [f"`{name}`", *(str(found.count(verdict)) for verdict in VERDICTS), ", ".join(missed) or NONE]


def _baselines(presets: Mapping[str, PresetReport]) -> Iterator[list[str]]:
    for name, title in {TOOL: "Counterpose", **BASELINES}.items():
        compared = [one.agreement[name] for one in presets.values()]
        found = [one.spearman if isinstance(one, Agreement) else None for one in compared]
        yield [title, *(cell for one in found for cell in cells(one))]


def _types(presets: Mapping[str, PresetReport]) -> Iterator[list[str]]:
    for name, report in presets.items():
        for edit_type, one in report.edits.items():
            judged = (one.success, one.fidelity, one.label)
            yield [f"`{name}`", edit_type, *cells(one.kept), *map(figure, judged), size(one.success)]


def _aims(presets: Mapping[str, PresetReport]) -> Iterator[list[str]]:
    for name, report in presets.items():
        for aim in report.aims:
            met = {None: "unknown", True: "yes", False: "**no**"}[aim.met]
            yield [f"`{name}`", aim.name, aim.aim, *cells(aim.reached), met]


def _command(name: str, one: PresetReport) -> list[str]:
    setting = one.setting
    seeds = ",".join(map(str, setting.seeds))
    taken = (
        f"{setting.sources} validation images of seed {seeds}, {setting.edits_per_source} planned edits each,"
        f" {len(setting.classifiers)} classifiers of which {len(setting.controls)} are controls"
    )
    found = (
        f"{len(one.planted_bugs)} planted bugs, {one.cells:,} cells of at least"
        f" {setting.least_sources_of_a_cell} images"
    )
    return [f"- `make validate SEEDS={seeds} SOURCES={setting.sources} PRESET={name}`: {taken}; {found}"]
