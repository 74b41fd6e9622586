"""The launcher's cluster without Ray: setup, state file, errors and cleanup."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve

from counterpose_core.errors import BackendUnavailable
from counterpose_processes.ports import free_port
from counterpose_services.service_options import ServiceOptions
from counterpose_services.serving import cluster
from counterpose_services.serving.cluster import STATE_FILE, running
from counterpose_services.serving.serve_config import http_options
from counterpose_services.settings import SERVICES, ServiceSettings


@dataclass
class Deployment:
    message: str


@dataclass
class Application:
    deployments: Mapping[str, Deployment]


@dataclass
class Status:
    applications: Mapping[str, Application]


@dataclass
class FakeServe:
    """Records the calls to Serve; running fails if there are complaints."""

    complaints: Mapping[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    targets: list[Any] = field(default_factory=list)

    def start(self, **options: Any) -> None:
        self.options = options

    def run_many(self, targets: list[Any]) -> None:
        self.targets = targets
        if self.complaints:
            raise RuntimeError("Deploying applications failed.")

    def status(self) -> Status:
        said = {name: Deployment(text) for name, text in self.complaints.items()}
        return Status({name: Application({name: deployment}) for name, deployment in said.items()})


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings.model_validate({"state_dir": tmp_path / "state", "port": free_port()})


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace Ray; return the folders that it gets."""
    seen: list[Path] = []

    @contextmanager
    def no_ray(folder: Path, python: str | None) -> Iterator[None]:
        seen.append(folder)
        yield

    monkeypatch.setattr(cluster, "_ray", no_ray)
    # No worker starts, so none need import anything.
    monkeypatch.setattr(cluster, "CAN_FORK", False)
    monkeypatch.setattr(os, "umask", lambda _: 0o022)
    return seen


def serving(monkeypatch: pytest.MonkeyPatch, **complaints: str) -> FakeServe:
    fake = FakeServe(complaints)
    for name in ("start", "run_many", "status"):
        monkeypatch.setattr(serve, name, getattr(fake, name))
    return fake


def test_the_state_file_holds_the_address_while_the_services_run(
    settings: ServiceSettings, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch)
    file = settings.state_dir / STATE_FILE
    with running(settings, ["scorer"]):
        state = json.loads(file.read_text(encoding="utf-8"))
        assert folders[0].is_dir()
    assert state == {
        "pid": os.getpid(),
        "url": f"http://127.0.0.1:{settings.port}",
        "services": ["scorer"],
    }
    assert not file.exists()
    assert not folders[0].exists()


def test_the_secret_exists_before_the_first_replica_starts(
    settings: ServiceSettings, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch)
    with running(settings, ["scorer"]):
        assert len(settings.shared_secret()) == 64


def test_every_service_is_an_application_with_its_own_name(
    settings: ServiceSettings, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = serving(monkeypatch)
    with running(settings, SERVICES):
        pass
    assert [(one.name, one.route_prefix) for one in fake.targets] == [(name, f"/{name}") for name in SERVICES]
    assert fake.options["proxy_location"] == "HeadOnly"
    assert fake.options["http_options"]["host"] == "127.0.0.1"


def test_the_proxy_waits_longer_than_the_services(settings: ServiceSettings) -> None:
    assert http_options(settings)["request_timeout_s"] > settings.request_timeout_s


def test_an_error_names_failed_services_with_their_last_message(
    settings: ServiceSettings, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, editor="Traceback ...\n  File x\nUnknownModel: no folder 'editor'\n", scorer="  ")
    with (
        pytest.raises(BackendUnavailable, match=r"not every .*: editor: UnknownModel: no folder 'editor'$"),
        running(settings, ["editor", "scorer"]),
    ):
        pass
    assert not folders[0].exists()
    assert not (settings.state_dir / STATE_FILE).exists()


def test_an_error_while_the_services_run_cleans_up(
    settings: ServiceSettings, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch)
    with pytest.raises(ZeroDivisionError), running(settings, ["scorer"]):
        raise ZeroDivisionError
    assert not (settings.state_dir / STATE_FILE).exists()
    assert not folders[0].exists()


def test_a_cluster_in_the_caller_s_environment_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = os.environ | {"RAY_ADDRESS": "ray://elsewhere:10001", "RAY_AUTH_TOKEN": "theirs"}
    monkeypatch.setattr(os, "environ", changed)
    cluster._prepare_environment(tmp_path / "token")
    assert "RAY_ADDRESS" not in changed
    assert "RAY_AUTH_TOKEN" not in changed
    assert changed["RAY_AUTH_MODE"] == "token"
    assert changed["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    assert changed["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.fault("T11")
def test_each_cluster_has_its_own_private_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in ("one", "two"):
        cluster._prepare_environment(tmp_path / name)
    tokens = {(tmp_path / name).read_text(encoding="utf-8") for name in ("one", "two")}
    assert {len(token) for token in tokens} == {64}
    assert len(tokens) == 2
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


def without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace Ray's start and stop; return the start's options, and what was stopped or ended."""
    seen: dict[str, Any] = {"stopped": [], "ended": []}

    class Node:
        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: seen["ended"].append(name)

    monkeypatch.setattr(ray._private.worker, "_global_node", Node())
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(ray, "init", lambda **options: seen.update(options))
    monkeypatch.setattr(ray, "shutdown", lambda: seen["stopped"].append("ray"))
    monkeypatch.setattr(serve, "shutdown", lambda: seen["stopped"].append("serve"))
    return seen


@pytest.mark.fault("T11")
def test_a_new_loopback_cluster_stops_after_its_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = without_a_cluster(monkeypatch)
    with pytest.raises(ZeroDivisionError), cluster._ray(tmp_path):
        raise ZeroDivisionError
    assert seen["address"] == "local"
    assert seen["_node_ip_address"] == "127.0.0.1"
    assert seen["_temp_dir"] == str(tmp_path / "ray")
    assert seen["runtime_env"] == {}
    assert seen["ended"] == ["kill_log_monitor", "kill_monitor", "kill_dashboard"]
    assert seen["stopped"] == ["serve", "ray"]


def test_workers_start_by_the_command_that_they_are_to_start_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = without_a_cluster(monkeypatch)
    with cluster._ray(tmp_path, "a command"):
        pass
    assert seen["runtime_env"] == {"py_executable": "a command"}


def test_workers_are_forked_from_one_that_imported_their_engines_unless_one_has_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[Sequence[str]]()

    @contextmanager
    def no_server(address: Path, modules: Sequence[str], threads: int) -> Iterator[str]:
        seen.append(modules)
        yield f"{address.parent == tmp_path} {threads}"

    monkeypatch.setattr(cluster, "fork_server", no_server)
    monkeypatch.setattr(cluster, "CAN_FORK", True)
    settings = ServiceSettings.model_validate({"state_dir": tmp_path, "threads": 3})
    with cluster._workers(tmp_path, settings, ["editor", "scorer"]) as command:
        assert command == "True 3"
    engines = {"counterpose_services.editor.engine", "counterpose_services.scorer.engine"}
    assert engines < set(seen[0])
    assert all(find_spec(module) is not None for module in seen[0])
    with_gpu = settings.model_copy(update={"scorer": ServiceOptions(device="cuda")})
    with cluster._workers(tmp_path, with_gpu, ["editor", "scorer"]) as command:
        assert command is None
    # The scorer may have one, where it does not start.
    with cluster._workers(tmp_path, with_gpu, ["editor"]) as command:
        assert command == "True 3"


SLOW = "The current node timed out during startup."


class SlowNode:
    """Ray's start, which leaves a process and raises ``error`` for the first ``failing`` times."""

    def __init__(self, failing: int, error: str) -> None:
        self.failing, self.error, self.left = failing, error, list[subprocess.Popen[bytes]]()

    def __call__(self, **_: Any) -> None:
        self.left.append(subprocess.Popen(["sleep", "60"]))
        if len(self.left) <= self.failing:
            raise RuntimeError(self.error)


def test_a_node_that_takes_longer_than_ray_waits_is_started_again_without_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_a_cluster(monkeypatch)
    monkeypatch.setattr(ray, "init", start := SlowNode(2, SLOW))
    with cluster._ray(tmp_path):
        *ended, running = start.left
        assert [each.wait(20) for each in ended] == [-signal.SIGKILL] * 2
        assert running.poll() is None
    running.kill()
    running.wait(20)


@pytest.mark.parametrize(("failing", "error", "starts"), [(9, SLOW, 3), (1, "no space left", 1)])
def test_a_cluster_that_does_not_start_is_backend_unavailable(
    failing: int, error: str, starts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_a_cluster(monkeypatch)
    monkeypatch.setattr(ray, "init", start := SlowNode(failing, error))
    with pytest.raises(BackendUnavailable, match=f"Ray did not start: {error}"), cluster._ray(tmp_path):
        pass
    assert [each.wait(20) for each in start.left] == [-signal.SIGKILL] * starts
