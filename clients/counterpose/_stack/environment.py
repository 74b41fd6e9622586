"""The environment of every process of a stack."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from counterpose._stack.state_folder import STATE_VARIABLE
from counterpose_processes.ports import LOOPBACK

SUITE_VARIABLE = "COUNTERPOSE_SUITE"
DEFAULT_SUITE = "miniature"
MODELS_VARIABLE = "COUNTERPOSE_SERVICES_MODELS_FOLDER"
MODELS = "models"
"""The folder of `local:` classifiers below the state folder, unless the variable names another one."""
FOLDERS = (
    "COUNTERPOSE_SUITE_ROOT",
    "COUNTERPOSE_SECRET_FILE",
    MODELS_VARIABLE,
    "COUNTERPOSE_SERVICES_LABEL_MAP",
    "COUNTERPOSE_SERVICES_OPENAI_KEY_FILE",
    "COUNTERPOSE_SERVICES_IMAGES_KEY_FILE",
)
"""Variables that may hold a path relative to the caller's folder, in which the processes do not run."""


def environment_of(
    state: Path,
    port: int,
    services_port: int,
    environ: Mapping[str, str] | None = None,
    suite: str | None = None,
) -> dict[str, str]:
    """Return the caller's environment with this stack's addresses, state, suite and quiet Ray in it."""
    inherited = dict(os.environ if environ is None else environ)
    inherited |= {} if suite is None else {SUITE_VARIABLE: suite}
    inherited[MODELS_VARIABLE] = inherited.get(MODELS_VARIABLE) or str(state / MODELS)
    return (
        inherited
        | {name: str(Path(inherited[name]).absolute()) for name in FOLDERS if inherited.get(name)}
        | {
            SUITE_VARIABLE: suite_of(inherited),
            STATE_VARIABLE: str(state),
            "COUNTERPOSE_PORT": str(port),
            "COUNTERPOSE_SERVICES_PORT": str(services_port),
            "COUNTERPOSE_SERVICES_URL": f"http://{LOOPBACK}:{services_port}",
            # A dozen processes with a pool of threads each slow one another down on two cores.
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
    )


def suite_of(environ: Mapping[str, str]) -> str:
    """Return the suite that services would load: a name, or a TOML file by its absolute path."""
    suite = environ.get(SUITE_VARIABLE) or DEFAULT_SUITE
    return str(Path(suite).absolute()) if suite.endswith(".toml") else suite
