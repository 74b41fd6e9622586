"""Runners of the GitHub action and the GitLab template: their steps are executed as the platforms do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "integrations/github/action.yml"
TEMPLATE = ROOT / "integrations/gitlab/counterpose-gate.yml"
EXPRESSION = re.compile(r"\$\{\{ *([a-z._-]+) *\}\}")
INPUT = re.compile(r"\$\[\[ *inputs\.([a-z-]+) *\]\]")


@dataclass(frozen=True)
class Place:
    """A checkout, and the gateway that its jobs use."""

    url: str
    checkout: Path


def executed(script: str, variables: Mapping[str, str], place: Place) -> subprocess.CompletedProcess[str]:
    """Run a step in the checkout, as GitHub's ``shell: bash`` does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], env=known | dict(variables),
        cwd=place.checkout, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def action_steps(given: Mapping[str, str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Each step's script and its variables with the inputs put in."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    inputs = {name: given.get(name, each.get("default")) for name, each in action["inputs"].items()}
    assert None not in inputs.values(), "an input that is required is missing"
    known = {f"inputs.{name}": value for name, value in inputs.items()}
    known["github.action_path"] = str(ACTION.parent)
    return {
        step["name"]: (
            step["run"],
            {name: EXPRESSION.sub(lambda found: known[found[1]], text) for name, text in step["env"].items()},
        )
        for step in action["runs"]["steps"]
        if "env" in step
    }


def template_job(given: Mapping[str, str], part: str = "script") -> tuple[str, dict[str, str]]:
    """A part of the job as one script and its variables, with the inputs put in."""
    header, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    inputs = {name: given.get(name, each.get("default")) for name, each in header["spec"]["inputs"].items()}
    job = job["counterpose-gate"]
    # What GitLab puts into the script would be run.
    assert not INPUT.search("\n".join(job[part]))
    variables: dict[str, Any] = {
        name: INPUT.sub(lambda found: str(inputs[found[1]]), text) for name, text in job["variables"].items()
    }
    return "\n".join(job[part]), variables | {"COUNTERPOSE_URL": given["url"]}
