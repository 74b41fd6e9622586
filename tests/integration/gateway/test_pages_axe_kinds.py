"""Whom the pages of every kind of run serve, and a finding's page while it is proven and after."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.benchmarks import benchmark_body, benchmark_services, learn_interface
from fakes.browser import CHROMIUM, Tab, browser
from fakes.page_access import MODES, hindrances, hindrances_without_script
from fakes.served_gateway import ServedGateway, served_gateway

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

CLASSES = ("sled", "boat")
STRESS_TEST = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "limit": 10, "confirm": False, "seed": 3,
}  # fmt: skip
SAID = {
    "benchmark": "50 points of accuracy",
    "interface": "2 of 2 classes learned",
    "gate": "Failed: ",
    "proof going": "Making more images of it",
    "proof ended": "Evidence of 2 runs",
}
"""What each page has to say, with or without script."""

every_page = pytest.mark.parametrize("name", SAID)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Every page by name."""
    with served_gateway(tmp_path_factory.mktemp("gateway")) as served:
        served.call(served.gateway.upload("demo", 20, CLASSES))
        runs = {"benchmark": benchmark(served), "interface": interface(served), "gate": gate(served)}
        searched = stress_test(served)
        paths = {name: f"/ui/runs/{run_id}" for name, run_id in runs.items()} | {
            "proof ended": proof(served, searched, 1, 12),
            "proof going": proof(served, searched, 2, 12, groups=3),
        }
        yield {name: served.address + path for name, path in paths.items()}


def created(served: ServedGateway, path: str, body: dict[str, object]) -> str:
    """The id of a new run."""
    answer = served.call(served.gateway.http.post(f"/v1/{path}", json=body))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def benchmark(served: ServedGateway) -> str:
    """A shift benchmark that has ended, by an editor that knows the tokens of its interface."""
    gateway = served.gateway
    run_id = created(
        served, "shift-benchmarks", benchmark_body(learn_interface(gateway.ledger, classes=CLASSES))
    )
    served.call(gateway.worker(benchmark_services(gateway.world)).work_off())
    return run_id


def interface(served: ServedGateway) -> str:
    """A dataset interface that has learned its classes."""
    run_id = created(served, "dataset-interfaces", {"dataset": "demo", "steps": 50, "seed": 5})
    served.work()
    return run_id


def gate(served: ServedGateway) -> str:
    """A gate that has ended, on the counterfactuals of a stress test."""
    baseline = created(served, "stress-tests", STRESS_TEST | {"limit": None})
    served.work()
    compared = {"baseline": baseline, "classifiers": ["leaning"], "incumbent": "steady", "seed": 3}
    run_id = created(served, "gates", compared)
    served.work()
    return run_id


def stress_test(served: ServedGateway) -> str:
    """A stress test that has ended in suspicions."""
    run_id = created(served, "stress-tests", STRESS_TEST)
    served.work()
    return run_id


def proof(served: ServedGateway, run_id: str, number: int, images: int, groups: int | None = None) -> str:
    """The page of a finding that a run proves, worked off as far as told."""
    created(served, f"runs/{run_id}/findings/{number}/prove", {"images": images})
    served.work(groups)
    return f"/ui/runs/{run_id}/findings/{number}"


@every_page
@pytest.mark.parametrize("mode", MODES)
def test_a_page_hinders_nobody(tab: Tab, addresses: dict[str, str], name: str, mode: str) -> None:
    assert hindrances(tab, addresses[name], mode, SAID[name]) == []


@every_page
def test_a_page_without_script_says_all_and_offers_nothing_that_does_nothing(
    tab: Tab, addresses: dict[str, str], name: str
) -> None:
    assert hindrances_without_script(tab, addresses[name], SAID[name]) == []
