"""The GitHub action and the GitLab template: their shell steps are executed as the runners execute them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from counterpose import Client
from fakes.integrations import TEMPLATE, Place, action_steps, executed, template_job
from fakes.served_gateway import ServedGateway, served_gateway
from fakes.world import CLASSES

CASES = [("timm:resnet18", 0), ("leaning", 1)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, checkout = tmp_path_factory.mktemp("gateway"), tmp_path_factory.mktemp("checkout")
    with served_gateway(folder) as served:
        frozen = _frozen(served)
        (checkout / "regression-set.json").write_text(frozen, encoding="utf-8")
        with served.working():
            yield Place(served.address, checkout)


def _frozen(served: ServedGateway) -> str:
    """A stress test of 80 source images, as `counterpose freeze` writes it."""
    for classes in (CLASSES[:2], CLASSES[2:]):
        served.call(served.gateway.upload("demo", 20, classes))
    with Client(served.address) as client:
        run = client.stress_tests.create(
            dataset="demo", classifiers=["steady"], edit_types=["background"], max_edits_per_image=2,
            lance_r_edits_per_image=0, confirm=False, seed=3,
        )  # fmt: skip
        served.work()
        return client.gates.freeze(run.id).model_dump_json()


@pytest.mark.parametrize(("classifier", "code"), CASES)
def test_the_action_passes_the_exit_code_on_and_writes_the_summary(
    place: Place, tmp_path: Path, classifier: str, code: int
) -> None:
    steps = action_steps(
        {"baseline": "regression-set.json", "classifier": f"{classifier}\n", "url": place.url, "package": ""}
    )
    script, variables = steps["Install counterpose"]
    installed = executed(script, variables, place)
    assert installed.returncode == 0, installed.stderr
    assert installed.stdout.startswith("counterpose ")
    script, variables = steps["Gate"]
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    (tmp_path / "GITHUB_STEP_SUMMARY").write_text("before\n", encoding="utf-8")
    found = executed(script, variables | files, place)
    assert found.returncode == code, found.stderr
    assert (tmp_path / "GITHUB_OUTPUT").read_text(encoding="utf-8") == f"exit-code={code}\n"
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    outcome = json.loads((place.checkout / "counterpose-gate/gate.json").read_text(encoding="utf-8"))[
        "outcome"
    ]
    assert outcome == ("passed", "failed")[code]
    assert summary.startswith("before\n### ")
    assert outcome.capitalize() in summary
    assert (place.checkout / "counterpose-gate/report.html").is_file()


def test_the_action_without_a_summary_still_tells_its_exit_code(place: Place, tmp_path: Path) -> None:
    steps = action_steps({"baseline": "nowhere.json", "classifier": "steady", "url": place.url})
    script, variables = steps["Gate"]
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    found = executed(script, variables | files | {"FOLDER": str(tmp_path / "out")}, place)
    assert found.returncode == 2
    assert "there is no file 'nowhere.json'" in found.stderr
    assert (tmp_path / "GITHUB_OUTPUT").read_text(encoding="utf-8") == "exit-code=2\n"
    assert not (tmp_path / "GITHUB_STEP_SUMMARY").exists()


def test_an_input_is_never_run_as_a_part_of_the_script(place: Place, tmp_path: Path) -> None:
    evil = f'x"; touch {tmp_path}/run; "$(touch {tmp_path}/run)'
    given = {"baseline": evil, "classifier": evil, "incumbent": evil, "tolerance": evil, "url": place.url}
    script, variables = action_steps(given)["Gate"]
    assert "${{" not in script
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    assert executed(script, variables | files | {"FOLDER": str(tmp_path / "out")}, place).returncode == 2
    assert executed(*template_job(given), place).returncode == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("classifier", "code"), CASES)
def test_the_template_passes_the_exit_code_on_and_writes_junit(
    place: Place, classifier: str, code: int
) -> None:
    given = {
        "baseline": "regression-set.json", "classifier": classifier, "incumbent": "steady", "url": place.url
    }  # fmt: skip
    found = executed(*template_job(given), place)
    assert found.returncode == code, found.stderr
    suite = ET.parse(place.checkout / "counterpose-gate/gate.xml").getroot()
    assert (int(suite.attrib["tests"]), int(suite.attrib["failures"])) == (2, code)


def test_what_the_template_keeps_is_what_its_script_writes() -> None:
    _, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    job = job["counterpose-gate"]
    written = "\n".join(job["script"])
    assert [file for file in job["artifacts"]["reports"]["junit"] if file not in written] == []
    assert job["artifacts"]["when"] == "always"
    assert job["allow_failure"] == {"exit_codes": 5}
