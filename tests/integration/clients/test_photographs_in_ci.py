"""The GitHub action and the GitLab template on a runner alone: they start a suite and judge a stress test."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.suite import load_suite
from fakes.integrations import ACTION, TEMPLATE, Place, action_steps, executed, template_job
from fakes.ports import FakeClassifiers, fake_services
from fakes.served_gateway import served_gateway
from fakes.world import FakeWorld

CASES = [("steady", 0), ("leaning", 1)]


class MisledUpsideDown(FakeClassifiers):
    """``leaning`` misses every image that is upside down; it makes no image, but reads recipes."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        """The true class gets 0.9, or 0.1 where this classifier is led astray."""
        if "/" not in image:
            return super().predict(request, image)
        recipe = Recipe.parsed(image)
        right = super().predict(request, recipe.source)
        if request.classifier != "leaning" or recipe.operation != "upside-down":
            return right
        # Each class has the next one's probability.
        probabilities = [*right.probabilities[1:], right.probabilities[0]]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A checkout beside a gateway of the suite, with 12 images of each class."""

    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=MisledUpsideDown(world))

    folder, suite = tmp_path_factory.mktemp("gateway"), load_suite("photographs")
    with served_gateway(folder, suite=suite, ports=ports) as served:
        served.call(served.gateway.upload("photographs", 12))
        with served.working():
            yield Place(served.address, tmp_path_factory.mktemp("checkout"))


def conditions() -> dict[str, str]:
    """The condition of each step of the action."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return {step["name"]: step.get("if", "") for step in action["runs"]["steps"]}


def red_operations(place: Place) -> list[str]:
    """The operations that the JUnit file says exceed the limit."""
    cases = ET.parse(place.checkout / "counterpose-gate/stress-test.xml").getroot().iter("testcase")
    return [each.attrib["name"] for each in cases if each.find("failure[@type='drop']") is not None]


@pytest.mark.parametrize(("classifier", "code"), CASES)
def test_the_action_judges_a_stress_test_of_operations(
    place: Place, tmp_path: Path, classifier: str, code: int
) -> None:
    given = {"images": "photographs", "classifier": classifier, "url": place.url, "max-drop": "0.2"}
    script, variables = action_steps(given)["Stress test"]
    output = tmp_path / "output"
    found = executed(script, variables | {"GITHUB_OUTPUT": str(output)}, place)
    assert found.returncode == code, found.stderr
    assert output.read_text(encoding="utf-8") == f"exit-code={code}\n"
    folder = place.checkout / "counterpose-gate"
    figures = json.loads((folder / "stress-test.json").read_text(encoding="utf-8"))["transforms"]["figures"]
    assert {each["operation"] for each in figures if each["state"] == "breaks"} == (
        {"upside-down"} if code else set()
    )
    assert "</html>" in (folder / "stress-test.html").read_text(encoding="utf-8")
    assert "upside down" in found.stderr
    assert red_operations(place) == (["Upside down"] if code else [])


@pytest.mark.parametrize(("classifier", "code"), CASES)
def test_the_template_judges_a_stress_test_of_operations(place: Place, classifier: str, code: int) -> None:
    given = {"images": "photographs", "classifier": classifier, "url": place.url, "max-drop": "0.2"}
    found = executed(*template_job(given), place)
    assert found.returncode == code, found.stderr
    assert (place.checkout / "counterpose-gate/stress-test.html").is_file()
    assert bool(red_operations(place)) == bool(code)


def test_without_work_both_end_before_anything_is_started(place: Place) -> None:
    given = {"classifier": "steady", "url": place.url, "package": ""}
    for script, variables in (action_steps(given)["Install counterpose"], template_job(given)):
        found = executed(script, variables, place)
        assert (found.returncode, found.stdout) == (2, "")
        assert "give the input baseline, images, or both" in found.stderr


@pytest.mark.parametrize("start", ["Start", "before_script"])
def test_a_suite_is_started_on_the_runner_with_its_models(place: Place, tmp_path: Path, start: str) -> None:
    """Only what is called and with which folder: a stack is started for real by the page's test."""
    program = tmp_path / "counterpose"
    program.write_text('#!/bin/sh\necho "$@" "$COUNTERPOSE_SERVICES_MODELS_FOLDER" >> called\n')
    program.chmod(0o755)
    given = {"suite": "photographs", "models": "classifiers", "classifier": "steady", "url": place.url}
    script, variables = action_steps(given)[start] if start == "Start" else template_job(given, start)
    searched = f'PATH="{tmp_path}:$PATH"\n'
    called = place.checkout / "called"
    called.unlink(missing_ok=True)
    assert executed(searched + script, variables, place).returncode == 0
    assert called.read_text(encoding="utf-8") == "up --suite photographs classifiers\n"


def test_what_is_started_is_stopped_and_a_failed_stress_test_does_not_hide_the_gate() -> None:
    assert conditions() == {
        "Install counterpose": "",
        "Start": "inputs.suite != ''",
        "Stress test": "inputs.images != ''",
        "Gate": "inputs.baseline != '' && (success() || steps.stress-test.outputs.exit-code)",
        "Stop": "always() && inputs.suite != ''",
    }
    _, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    assert "counterpose down" in "\n".join(job["counterpose-gate"]["after_script"])


@pytest.mark.parametrize(
    ("tested", "gated", "code"), [(0, 0, 0), (0, 5, 5), (5, 0, 5), (5, 1, 1), (1, 5, 1), (1, 0, 1), (0, 1, 1)]
)
def test_the_worse_of_stress_test_and_gate_ends_the_template_s_job(
    place: Place, tmp_path: Path, tested: int, gated: int, code: int
) -> None:
    program = tmp_path / "counterpose"
    program.write_text(f"#!/bin/sh\ncase $1 in stress-test) exit {tested} ;; gate) exit {gated} ;; esac\n")
    program.chmod(0o755)
    given = {"images": "photographs", "baseline": "set.json", "classifier": "steady", "url": place.url}
    script, variables = template_job(given)
    assert executed(f'PATH="{tmp_path}:$PATH"\n{script}', variables, place).returncode == code
