"""The dashboard and the alerts name metrics, labels and states that a gateway really tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fakes.gateway import FakeGateway
from manifests.rendering import K8S, ROOT

FOLDER = K8S / "components" / "observability"
NAME = re.compile(r"counterpose_[a-z_]+")
MATCHERS = re.compile(r"(counterpose_[a-z_]+)\{([^}]*)\}")
GROUPED = re.compile(r"by \(([^)]*)\) \((?:\w+\()?\(?(counterpose_[a-z_]+)")
FROM_PROMETHEUS = {"le"}


def expressions() -> Iterator[str]:
    """Every query of the two files."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
    for group in rules["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


@pytest.fixture
async def told(gateway: FakeGateway) -> dict[str, set[str]]:
    """The labels of each series that a gateway tells."""
    await gateway.http.get("/healthz")
    text = (await gateway.http.get("/metrics")).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    labels: dict[str, set[str]] = {}
    for sample in samples:
        labels.setdefault(sample.name, set()).update(sample.labels)
    # Without a sample before an editor answers: its family alone is told.
    return labels | {
        family.name: set() for family in text_string_to_metric_families(text) if not family.samples
    }


def missing(queries: list[str], told: dict[str, set[str]]) -> list[str]:
    """What the queries name and the gateway does not tell."""
    found = [name for query in queries for name in NAME.findall(query) if name not in told]
    for query in queries:
        for name, matchers in MATCHERS.findall(query):
            asked = set(re.findall(r"(\w+)\s*[=!]", matchers))
            found += [f"{name}: {label}" for label in asked - told.get(name, set())]
        for grouped, name in GROUPED.findall(query):
            asked = set(re.split(r",\s*", grouped))
            found += [f"{name}: {label}" for label in asked - told.get(name, set())]
    return found


async def test_every_metric_and_label_of_dashboard_and_alerts_is_told(told: dict[str, set[str]]) -> None:
    queries = list(expressions())
    assert len(queries) > 20
    assert missing(queries, told) == []


async def test_a_renamed_metric_and_a_renamed_label_are_found(told: dict[str, set[str]]) -> None:
    renamed = {name.replace("open_items", "items_open"): labels for name, labels in told.items()}
    assert "counterpose_open_items" in missing(list(expressions()), renamed)
    renamed = told | {"counterpose_items_total": {"kind", "result"}}
    assert "counterpose_items_total: outcome" in missing(list(expressions()), renamed)


def test_there_are_five_alerts_and_each_tells_what_to_look_at() -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert len(alerts) == 5
    assert all(rule["annotations"]["description"] for rule in alerts)


def test_the_dashboard_s_panels_do_not_overlap() -> None:
    panels = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="lets Prometheus' own tool judge the alerts")
def test_each_alert_is_raised_by_what_it_is_for_and_by_nothing_else(tmp_path: Path) -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules["spec"]), encoding="utf-8")
    shutil.copy(ROOT / "tests" / "manifests" / "alerts_test.yaml", tmp_path / "test.yml")
    command = ["promtool", "test", "rules", "test.yml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
