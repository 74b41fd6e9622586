"""Functions of the caller's program that the command line names: what it says where one cannot be tested."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from fakes.command import run
from fakes.engine_classifiers import port_of, with_engine
from fakes.functions import Write, writing
from fakes.served_gateway import ServedGateway, served_gateway
from fakes.world import CLASSES

UNSURE = """
import numpy
input_size = (16, 16)
{names}
def predict(images):
    return numpy.full((len(images), {classes}), 1 / {classes})
"""
"""A model that is equally sure of so many classes."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway on a socket, whose services call functions."""
    with (
        httpx.HTTPTransport() as transport,
        served_gateway(tmp_path_factory.mktemp("gateway"), ports=with_engine) as opened,
    ):
        port_of(opened.gateway).serve_from(opened.gateway.store, transport)
        opened.call(opened.gateway.upload("demo", 1))
        yield opened


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    monkeypatch.chdir(tmp_path)
    yield from writing(tmp_path, monkeypatch)


COMMANDS = {
    "stress-test": ["demo"],
    # No dataset names the classes of a hunt.
    "bug-hunt": ["--label", CLASSES[0], "--label-map", json.dumps({name: [name] for name in CLASSES})],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_function_with_other_outputs_than_the_classes_and_makes_no_run(
    served: ServedGateway, module: Write, command: str
) -> None:
    def asked(classes: int, names: str, *options: str) -> tuple[int, str]:
        spec = module(UNSURE.format(classes=classes, names=names))
        words = [command, *COMMANDS[command], "--classifier", spec, "--url", served.address, *options]
        # What is not refused must end.
        with served.working():
            shown = run(*words)
        return shown.exit_code, " ".join(shown.stderr.split())

    code, told = asked(8, "")
    assert code == ExitCode.USAGE, told
    assert f"has 8 classes, not the {len(CLASSES)}" in told
    assert "(classes=)" in told
    assert "label map" in told
    assert not served.gateway.ledger.runs.page(limit=5).runs
    # Of the classes themselves, the same words are a run.
    code, told = asked(len(CLASSES), f"classes = {CLASSES!r}", "--dry-run")
    assert code == ExitCode.PASSED, told
