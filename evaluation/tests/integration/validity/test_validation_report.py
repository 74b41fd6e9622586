"""The validation report: from a synthetic run to a file that satisfies its schema."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.types import Estimate
from counterpose_miniature.world.scene import Scene
from evaluation.paths import RESULTS, ROOT
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, contestant, insight, item, scene, truth
from evaluation.validity import aims, command
from evaluation.validity.assembly import Pieces, report
from evaluation.validity.contestants import Contestant
from evaluation.validity.detection import bug_reports
from evaluation.validity.labelling import asked_of
from evaluation.validity.labels import Labelled
from evaluation.validity.order import Order, generator
from evaluation.validity.report import (
    Absent,
    FilterFigures,
    PresetReport,
    Reconstruction,
    SimulatedFigures,
    Simulation,
    Validity,
)
from evaluation.validity.sources import image_of

SCHEMA = RESULTS / "validity.schema.json"
SOURCES = [scene(nuisance=number) for number in range(20)]
ENDED = ("done", "filtered")
KNOWN = FilterFigures(
    precision=Estimate(estimate=0.9, low=0.8, high=0.95, n=100),
    recall=Estimate(estimate=0.8, low=0.7, high=0.9, n=100),
)
TRUTHS = {
    "leaning": truth(SOURCES, {("background", "water"): 0.9}, otherwise=0.3),
    "local:control": truth(SOURCES, {}),
}


def _sandy(source: Scene) -> Scene:
    return source.changed("background", "sand")


def pieces(tmp_path: Path) -> Pieces:
    """Twenty boats moved from the water, for a classifier that is affected and one that is not."""
    entrants: list[Contestant] = [contestant("leaning", BOAT_BY_ITS_WATER), contestant("local:control")]
    before, after = {"leaning": 0.9, "local:control": 0.9}, {"leaning": 0.3, "local:control": 0.9}
    items = [
        item(one, _sandy(one), name=f"edit-{at}", p=(before, after)).model_copy(
            update={"source_image": image_of(one)}
        )
        for at, one in enumerate(SOURCES)
    ]
    return Pieces(
        order=Order(state=tmp_path, sources=20),
        entrants=entrants,
        scenes={0: SOURCES},
        truths=TRUTHS,
        bugs=bug_reports(entrants, TRUTHS, generator("bugs")),
        runs={0: "run"},
        items={0: items},
        insights={0: [insight(classifier="leaning"), insight(classifier="local:control", significant=False)]},
        seen={0: {f"edit-{at}": _sandy(one).attributes() for at, one in enumerate(SOURCES)}},
        seen_sources={image_of(one): one.attributes() for one in SOURCES},
        labelled=[],
        seen_labelled=[],
        text_filter=KNOWN,
        drawn=None,
        seconds={"truth": 1.26},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> PresetReport:
    return report(pieces(tmp_path_factory.mktemp("validity")))


def test_the_checked_in_schema_matches_the_report_model() -> None:
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema = Validity.model_json_schema(mode="serialization")
    assert written == schema, f"write json.dumps(schema, indent=2) to {SCHEMA.name}"


def test_a_report_validates_against_its_schema(made: PresetReport) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    body = json.loads(Validity(presets={"quick": made}).model_dump_json())
    jsonschema.validate(body, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert Validity.model_validate(body).presets["quick"] == made


def test_the_checked_in_results_satisfy_the_report_model() -> None:
    written = RESULTS / "validity.json"
    if not written.exists():
        pytest.skip("no validation was checked in yet")
    Validity.model_validate_json(written.read_bytes())


def test_planted_and_found_bugs_are_listed(made: PresetReport) -> None:
    assert made.planted_bugs == made.planted_bugs_found == ["leaning/boat-leans-on-water@0"]
    assert made.detection.recall_of_strong.estimate == 1.0


def test_unconfirmed_insights_are_not_findings(made: PresetReport) -> None:
    assert [one.classifier for one in made.detection.findings] == ["leaning"]


def test_cells_need_enough_sources(made: PresetReport) -> None:
    assert made.cells == 2
    assert made.setting.least_sources_of_a_cell == 20


def test_baselines_that_were_not_run_give_the_reason(made: PresetReport) -> None:
    absent = {name: one.absent for name, one in made.agreement.items() if isinstance(one, Absent)}
    assert set(absent) == {"lance-r", "class-name-generation"}
    assert all(absent.values())


def test_the_setting_describes_what_was_run(made: PresetReport) -> None:
    assert (made.setting.sources, made.setting.controls, made.setting.runs) == (
        20,
        ["local:control"],
        ["run"],
    )
    assert made.setting.seconds == {"truth": 1.3}


def test_a_preset_is_written_without_replacing_the_others(made: PresetReport, tmp_path: Path) -> None:
    out = tmp_path / "validity.json"
    out.write_text(command.merged(out, "quick", made).model_dump_json(), encoding="utf-8")
    assert set(command.merged(out, "lance", made).presets) == {"quick", "lance"}


def test_the_oracle_is_checked_on_the_sources(made: PresetReport) -> None:
    assert (made.oracle.renderings["all"].estimate, made.oracle.renderings["all"].n) == (1.0, 20)
    assert (made.oracle.edited, made.edits_corrected) == (None, None)


def test_human_labels_correct_the_edit_figures(tmp_path: Path) -> None:
    asked = asked_of(item(SOURCES[0], _sandy(SOURCES[0])), SOURCES[0].attributes())
    shown = _sandy(SOURCES[0]).attributes()
    one = Labelled(asked, np.zeros((64, 64, 3), dtype=np.uint8), shown)
    found = report(replace(pieces(tmp_path), labelled=[one], seen_labelled=[shown]))
    assert found.oracle.edited is not None
    assert found.oracle.edited["background"].n == 1
    assert found.edits_corrected is not None
    assert found.edits_corrected["background"].success.estimate == 1.0


def test_edit_figures_exclude_the_random_baseline(made: PresetReport, tmp_path: Path) -> None:
    plain = pieces(tmp_path)
    changes = [{"id": state, "kind": "lance-r", "edit_type": None, "state": state} for state in ENDED]
    random = [one.model_copy(update=change) for one in plain.items[0] for change in changes]
    seen = {one.id: {"object_class": "tram"} for one in random}
    items, shown = {0: [*plain.items[0], *random]}, {0: {**plain.seen[0], **seen}}
    found = report(replace(plain, items=items, seen=shown))
    assert (found.agreement["lance-r"].absent, bool(made.agreement["lance-r"].absent)) == (None, True)
    assert without_baselines(found) == without_baselines(made)


def without_baselines(made: PresetReport) -> PresetReport:
    own = {name: one for name, one in made.agreement.items() if name == "counterpose"}
    return made.model_copy(update={"aims": [], "agreement": own})


def test_the_simulation_is_reported_with_its_own_aims(made: PresetReport, tmp_path: Path) -> None:
    found = command.merged(tmp_path / "validity.json", "quick", made)
    assert found.simulation is not None
    assert set(found.simulation.sources) == {"10", "20", "40"}
    covered = [aim for aim in found.simulation_aims if "coverage" in aim.name]
    assert len(covered) == sum(len(one.coverage) for one in found.simulation.sources.values())
    alone = command.merged(tmp_path / "validity.json", "quick", made, simulated=tmp_path / "none.json")
    assert (alone.simulation, alone.simulation_aims) == (None, [])


@pytest.mark.parametrize(("value", "met"), [(0.92, False), (0.95, True), (1.0, True)])
def test_interval_coverage_must_not_be_too_low(value: float, met: bool) -> None:
    one = Estimate(estimate=value, low=value, high=value, n=1000)
    low = Estimate(estimate=0.07, low=0.06, high=0.08, n=1000)
    figures = SimulatedFigures(
        coverage={"drop": one},
        false_alarm=low,
        any_false_alarm_after_holm=low,
        false_discovery_share=low,
        harmful_clusters_found=one,
        detectable_drop_found=one,
    )
    found = aims.of_simulation(Simulation(replicates=1000, seed=0, sources={"20": figures}))
    assert [aim.met for aim in found] == [met, False, False, True]


def test_edit_type_figures_need_thirty_edits(made: PresetReport) -> None:
    found = next(aim for aim in made.aims if aim.name.startswith("success of kept background"))
    assert (found.met, found.reached.n) == (False, 20)


def test_an_aim_is_met_missed_or_unknown() -> None:
    figures = [Estimate(estimate=value, low=value, high=value, n=9) for value in (0.9, 0.7)]
    unknown = Estimate(estimate=None, low=None, high=None, n=0)
    assert [aims.at_least("recall", one, 0.8).met for one in (*figures, unknown)] == [True, False, None]
    assert [aims.at_most("alarms", one, 0.8).met for one in figures] == [False, True]


@pytest.mark.parametrize(("high", "met"), [(0.05, True), (0.07, False)])
def test_reconstructions_are_judged_by_their_upper_bound(high: float, met: bool) -> None:
    changed = Estimate(estimate=0.02, low=0.01, high=high, n=400)
    net = Estimate(estimate=-0.02, low=-0.03, high=0.0, n=400)
    rebuilt = Reconstruction(changed=changed, net=net, changed_by_classifier={}, fidelity=changed)
    assert [aim.met for aim in aims.of_reconstruction(rebuilt)] == [met, False]


def test_the_command_line_sets_the_order(tmp_path: Path) -> None:
    given = command.parsed(
        ["--seeds", "0,2", "--sources", "16", "--preset", "lance", "--state", str(tmp_path)]
    )
    order = command.order_of(given)
    assert (order.seeds, order.sources, order.preset, order.edits) == ((0, 2), 16, "lance", 10)
    assert order.models == tmp_path / "classifiers-150-steps"


@pytest.mark.parametrize(
    ("given", "sources", "again"), [((), 400, False), (("SOURCES=40", "PRESET=lance", "AGAIN=1"), 40, True)]
)
def test_make_validate_passes_valid_arguments(given: tuple[str, ...], sources: int, again: bool) -> None:
    told = subprocess.run(
        ["make", "-n", "validate", *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = next(line for line in told.stdout.splitlines() if "evaluation.validity" in line)
    found = command.parsed(line.partition("evaluation.validity")[2].split())
    assert (found.sources, found.again) == (sources, again)
