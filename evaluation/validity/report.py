"""`results/validity.json`: every figure with its interval and n, and the targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from counterpose_core.types import EditType, Estimate

Verdict = Literal["true", "false-alarm", "undecided"]


class Part(BaseModel):
    """A frozen part of the report that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BugReport(Part):
    """A bug that one classifier was taught, its true drop by rendering, and whether that makes it planted."""

    classifier: str
    id: str
    object_class: str
    edit_type: EditType
    attribute: str
    value: str
    mode: Literal["leans-on", "mistaken-for"]
    strength: float
    true_drop: Estimate
    planted: bool


class Finding(Part):
    """A significant insight compared with rendered truth on the sources it is about.

    ``false-alarm``: the true drop's upper bound is below 0.05. ``true``: it names a planted bug, or the
    lower bound is above 0.05.
    """

    seed: int
    classifier: str
    object_class: str
    edit_type: str
    removed: str
    added: str
    estimated_drop: Estimate
    true_drop: Estimate
    bugs: list[str]
    verdict: Verdict


class Detection(Part):
    """Whether significant insights name the planted bugs, and nothing else.

    ``recall_when_permuted``: the same recall after the insights' classes were exchanged, so that none
    keeps its own; its interval covers 95 % of the exchanges. Controls are classifiers trained for the
    validation without bugs; ``classifiers_with_a_false_alarm`` counts all that took part.
    """

    recall_of_strong: Estimate
    recall: Estimate
    recall_by_true_drop: dict[str, Estimate]
    recall_when_permuted: Estimate
    precision: Estimate
    named_a_bug: Estimate
    false_alarms: Estimate
    controls_with_a_false_alarm: Estimate
    classifiers_with_a_false_alarm: Estimate
    findings: list[Finding]


class Margin(Part):
    """The tool's agreement less a baseline's, on the same cells, classifiers resampled for both at once."""

    spearman: Estimate
    mean_absolute_error: Estimate


class Agreement(Part):
    """Estimated and true drops over cells; intervals resample classifiers, each with all its cells.

    ``margin`` is the tool's over a baseline; the tool's own agreement has none.
    """

    absent: None = None
    spearman: Estimate
    spearman_within_models: Estimate
    mean_absolute_error: Estimate
    calibration_slope: Estimate
    intervals_with_the_truth: Estimate | None = None
    margin: Margin | None = None


class Absent(Part):
    """A baseline that was not run, and why."""

    absent: str


Compared = Annotated[Agreement | Absent, Field(union_mode="smart")]


class EditFigures(Part):
    """Edits of one kind judged by the oracle: the kept ones, and all that were made."""

    kept: Estimate
    success: Estimate
    fidelity: Estimate
    label: Estimate
    success_unfiltered: Estimate
    fidelity_unfiltered: Estimate
    label_unfiltered: Estimate
    text_success: Estimate


class CorrectedFigures(Part):
    """Figures of edits corrected for the oracle's error: of kept edits, and of all that were made."""

    success: Estimate
    fidelity: Estimate
    label: Estimate
    success_unfiltered: Estimate
    fidelity_unfiltered: Estimate
    label_unfiltered: Estimate


class OracleAccuracy(Part):
    """How often the oracle is right, by attribute and for all at once.

    ``renderings``: the sources, whose scenes are known. ``reconstructions``: taken to show their source's
    scene. ``edited``: edited images labelled by eye, None where none are.
    """

    renderings: dict[str, Estimate]
    reconstructions: dict[str, Estimate]
    edited: dict[str, Estimate] | None = None


class FilterFigures(Part):
    """A filter compared with its judge: how many that it passes are good, how many good ones it passes."""

    precision: Estimate
    recall: Estimate


class Selection(Part):
    """Mean true drop over all edits that were made, and over those the gate kept."""

    made: Estimate
    kept: Estimate
    unmade: int


class Apart(Part):
    """Mean drops of kept edits, by whether the generating models were trained on the combination."""

    estimated: Estimate
    true: Estimate
    mean_absolute_error: Estimate


class Reconstruction(Part):
    """Predictions that a reconstruction changes between right and wrong: in either direction, and net."""

    changed: Estimate
    net: Estimate
    changed_by_classifier: dict[str, Estimate]
    fidelity: Estimate


class Aim(Part):
    """A figure's target, its value, and whether the target was reached; None where that is unknown."""

    name: str
    aim: str
    reached: Estimate
    met: bool | None


class Setting(Part):
    """What was run."""

    seeds: list[int]
    sources: int
    sources_by_class: dict[str, int]
    edits_per_source: int
    habits: str
    preset: str
    classifiers: list[str]
    controls: list[str]
    least_sources_of_a_cell: int
    runs: list[str]
    seconds: dict[str, float]


class PresetReport(Part):
    """All figures of one preset."""

    setting: Setting
    aims: list[Aim]
    bugs: list[BugReport]
    planted_bugs: list[str]
    planted_bugs_found: list[str]
    detection: Detection
    cells: int
    agreement: dict[str, Compared]
    agreement_beyond_reconstruction: Agreement | None = None
    reliability_of_the_truth: Estimate
    edits: dict[str, EditFigures]
    edits_corrected: dict[str, CorrectedFigures] | None = None
    oracle: OracleAccuracy
    edits_seen_and_withheld: dict[str, EditFigures]
    drops_seen_and_withheld: dict[str, Apart]
    text_filter: FilterFigures
    image_gate: FilterFigures
    selection: dict[str, Selection]
    reconstruction: Reconstruction


class SimulatedFigures(Part):
    """The tool's statistics on simulated sources whose truth is known."""

    coverage: dict[str, Estimate]
    false_alarm: Estimate
    any_false_alarm_after_holm: Estimate
    false_discovery_share: Estimate
    harmful_clusters_found: Estimate
    detectable_drop_found: Estimate


class Simulation(Part):
    """`results/simulation.json`: coverage of intervals and error rates, by number of sources."""

    replicates: int
    seed: int
    sources: dict[str, SimulatedFigures]


class Validity(Part):
    """The report by preset, and the simulation with its targets."""

    presets: dict[str, PresetReport]
    simulation: Simulation | None = None
    simulation_aims: list[Aim] = []
