"""Perturbers whose language model a real ``vllm serve`` has, each started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counterpose_core.suite import PerturberSuite
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.openai_model import OpenAIModel
from counterpose_services.perturber.served import load_served
from counterpose_services.settings import ServiceSettings

PROGRAM = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "vllm"
# A CPU compiles for minutes what a tiny model computes in no time.
ARGUMENTS = "--enforce-eager --max-num-seqs 32"

Start = Callable[[PerturberSuite, Path], PerturberEngine]


def server_of(engine: PerturberEngine) -> OpenAIServer:
    """The client of an engine's server."""
    assert isinstance(engine._model, OpenAIModel)
    return engine._model._server


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a function that starts a suite's perturber on vLLM; all are stopped at the end."""
    if not PROGRAM.exists():
        pytest.skip("there is no vLLM; `make test-vllm` installs it")
    started: list[PerturberEngine] = []

    def begin(suite: PerturberSuite, root: Path) -> PerturberEngine:
        settings = ServiceSettings.model_validate(
            {
                "state_dir": tmp_path_factory.mktemp("state"),
                "suite_root": root,
                "vllm": PROGRAM,
                "vllm_arguments": ARGUMENTS,
            }
        )
        started.append(load_served(suite.model_copy(update={"engine": "vllm"}), settings))
        return started[-1]

    yield begin
    for engine in started:
        server_of(engine).close()
