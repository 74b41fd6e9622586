"""A server beside the replica is started as it should be, again when it dies, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.perturber import LikelihoodsRequest, PerturbItem, PerturbRequest
from counterpose_core.errors import BackendUnavailable, UnknownModel
from counterpose_core.suite import PerturberSuite
from counterpose_processes import supervised
from counterpose_processes.supervised import Supervised
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.openai_model import OpenAIModel
from counterpose_services.perturber.served import load_served
from counterpose_services.settings import ServiceSettings
from fakes.processes import look_until
from fakes.tiny_models.llama import save_llama
from fakes.vllm_program import FAILING, RECORD, write_program

SUITE = PerturberSuite(
    engine="vllm", model="perturber", adapter="perturber/adapter", max_new_tokens=8, prompt="compact"
)
DEADLY_WORD = "and"
"""Token 31 of the tiny vocabulary, at which the program dies once."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceSettings:
    monkeypatch.setenv(RECORD, str(tmp_path / "starts"))
    monkeypatch.setenv("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(supervised, "PAUSES_S", (0.0, 0.05))
    save_llama(tmp_path / "perturber")
    return ServiceSettings.model_validate(
        {
            "state_dir": tmp_path / "state",
            "suite_root": tmp_path,
            "vllm": write_program(tmp_path),
            "vllm_arguments": "--max-model-len 64",
            "openai_seconds": 20.0,
        }
    )


@pytest.fixture
def engine(settings: ServiceSettings) -> Iterator[PerturberEngine]:
    made = load_served(SUITE, settings)
    yield made
    client_of(made).close()


def client_of(engine: PerturberEngine) -> OpenAIServer:
    assert isinstance(engine._model, OpenAIModel)
    return engine._model._server


def server_of(engine: PerturberEngine) -> Supervised:
    found = client_of(engine).supervised
    assert found is not None
    return found


def starts(settings: ServiceSettings) -> list[dict[str, Any]]:
    lines = (settings.suite_root / "starts").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in processes)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def asked(*captions: str) -> PerturbRequest:
    return PerturbRequest(
        items=[
            PerturbItem(caption=caption, perturbation_type="adjective", n=1, seed=row)
            for row, caption in enumerate(captions)
        ]
    )


@pytest.mark.fault("T12")
def test_vllm_listens_on_loopback_with_a_key_and_loads_no_adapter_at_run_time(
    engine: PerturberEngine, settings: ServiceSettings
) -> None:
    (started,) = starts(settings)
    line, variables = " ".join(started["arguments"]), started["variables"]
    folder = settings.suite_root / "perturber"
    assert line.startswith(f"serve {folder} --served-model-name perturber --dtype float32 --host 127.0.0.1")
    assert "--enable-lora --max-loras 2 --max-lora-rank 8 --lora-target-modules k_proj q_proj v_proj" in line
    assert f"--lora-modules perturber/adapter={folder / 'adapter'}" in line
    assert line.endswith("--max-model-len 64")
    assert "--enable-prefix-caching" in line
    assert variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "0"
    assert variables["VLLM_API_KEY"] not in line
    assert "PYTHONPATH" not in variables
    assert "batch-invariant off" in engine.identity.id


def test_answers_are_read_with_the_model_s_own_vocabulary(engine: PerturberEngine) -> None:
    found = engine.perturb(asked("the red boat")).outcomes[0].unwrap()
    assert found.edits
    weighed = engine.likelihoods(LikelihoodsRequest(texts=["the red boat"])).outcomes[0].unwrap()
    assert (weighed.nats, weighed.tokens) == (-3.0, 3)


@pytest.mark.fault("F2")
def test_a_server_that_dies_in_the_middle_of_a_call_is_started_again_and_nothing_is_lost(
    engine: PerturberEngine, settings: ServiceSettings
) -> None:
    calm = ["the red boat", "a tram at night", "the sled in snow", "a boat on the sea"]
    before = engine.perturb(asked(*calm))
    call = asked(*calm[:3], f"dogs {DEADLY_WORD} a sled")
    outcomes = engine.perturb(call).outcomes
    assert [outcome.value for outcome in outcomes[:3]] == [one.value for one in before.outcomes[:3]]
    assert outcomes[3].value is not None
    first, second = starts(settings)
    assert gone(first["processes"])
    assert not gone(second["processes"])


def test_a_killed_guard_leaves_nothing_and_is_replaced(
    engine: PerturberEngine, settings: ServiceSettings
) -> None:
    first = server_of(engine).pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    look_until(lambda: len(starts(settings)) == 2 and gone(starts(settings)[0]["processes"]))
    assert engine.perturb(asked("the red boat")).outcomes[0].value is not None


def test_a_call_that_waits_too_long_for_its_server_may_be_repeated(engine: PerturberEngine) -> None:
    server_of(engine).close()
    with pytest.raises(BackendUnavailable, match="vLLM of the perturber ended"):
        server_of(engine).wait(0.01)


def test_a_server_that_ends_before_it_answers_is_told_with_its_last_words(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAILING, "1")
    with pytest.raises(BackendUnavailable, match="ended before it answered: ValueError: no such model"):
        load_served(SUITE, settings)


@pytest.mark.parametrize(
    ("program", "words"), [(None, "no program vllm is named"), ("/nowhere/vllm", "nowhere")]
)
def test_a_missing_program_is_one_sentence(
    settings: ServiceSettings, program: str | None, words: str
) -> None:
    with pytest.raises(UnknownModel, match=f"{words}.*set COUNTERPOSE_SERVICES_VLLM"):
        load_served(SUITE, settings.model_copy(update={"vllm": None if program is None else Path(program)}))


@pytest.mark.fault("F2")
def test_a_killed_replica_leaves_no_server_behind(settings: ServiceSettings) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from counterpose_processes.supervised import Supervised\n"
        "from counterpose_processes.ports import answers, free_port\n"
        "import os; port = free_port()\n"
        "command = [sys.argv[1], '--port', str(port)]\n"
        "server = Supervised('x', command, environment=os.environ, ready=lambda: answers(port, '/health'))\n"
        "server.start(); print('up', flush=True); time.sleep(600)\n"
    )
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(settings.vllm)], stdout=subprocess.PIPE, env=variables
    ) as replica:
        assert replica.stdout is not None
        assert replica.stdout.readline() == b"up\n"
        replica.kill()
    look_until(lambda: gone(starts(settings)[0]["processes"]))
