"""A Ray cluster on this machine with the services on it: start, state file and stop."""

from __future__ import annotations

import importlib
import json
import logging
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from counterpose_core.errors import BackendUnavailable
from counterpose_core.types import is_loopback
from counterpose_processes.ports import is_free
from counterpose_processes.system import descendants
from counterpose_services.serving.fork_server import CAN_FORK, fork_server
from counterpose_services.serving.serve_config import http_options, serve_config
from counterpose_services.settings import MEBIBYTE, ServiceName, ServiceSettings

STATE_FILE = "services.json"
WORKERS_IMPORT = ("pandas", "counterpose_services.http", "counterpose_services.serving.engine_protocols")
"""What Ray Serve and our deployments import in every worker, without Ray itself."""
# Calls pass images by reference, so bodies are small; Ray's default is 30 % of the memory.
OBJECT_STORE_BYTES = 300 * MEBIBYTE
PRIVATE = 0o077
MOST_STARTS = 3
"""How often a node is started: Ray waits 30 s for it, which no setting changes."""

_TOOK_TOO_LONG = "timed out during startup"
_logger = logging.getLogger(__name__)


def require_free_port(settings: ServiceSettings) -> None:
    """Raise BackendUnavailable if a program listens on the port: two proxies would share it silently."""
    if not is_free(settings.port, settings.host):
        raise BackendUnavailable(
            f"{settings.host}:{settings.port} is already in use; stop that program or set another port"
        )


def ensure_secret(settings: ServiceSettings) -> None:
    """Write the shared secret's file, readable only by its owner, unless a secret exists.

    Raises:
        BackendUnavailable: there is none, and the services listen beyond loopback.
    """
    if settings.secret is None and not settings.secret_file.exists():
        if not is_loopback(settings.host):
            # Its caller is in another container or machine, and could not read what is made up here.
            raise BackendUnavailable(
                f"services that listen on {settings.host!r} need a secret that the gateway knows, too; set "
                "COUNTERPOSE_SECRET or COUNTERPOSE_SECRET_FILE for both"
            )
        settings.secret_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.secret_file.touch(mode=0o600)
        settings.secret_file.write_text(secrets.token_hex(32), encoding="utf-8")


def services_url(settings: ServiceSettings) -> str:
    """Return the base address; each service's path is its name."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


@contextmanager
def running(settings: ServiceSettings, services: Sequence[ServiceName]) -> Iterator[None]:
    """Start Ray and the services, yield when they answer, and stop them at the end.

    Raises:
        BackendUnavailable: the port is in use, or a service did not start.
    """
    require_free_port(settings)
    # Ray's processes inherit it when they write sessions and logs.
    os.umask(PRIVATE)
    ensure_secret(settings)
    # Ray puts sockets there, and a socket's path has at most about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="counterpose-"))
    try:
        with _workers(folder, settings, services) as python, _ray(folder, python):
            _deploy(settings, services)
            _write_state(settings, services)
            yield
    finally:
        (settings.state_dir / STATE_FILE).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _workers(
    folder: Path, settings: ServiceSettings, services: Sequence[ServiceName]
) -> Iterator[str | None]:
    """Import what the workers will import; yield the command that starts one, None for Python itself."""
    # A library may ask for GPUs as it is imported, and CUDA does not survive a fork.
    if not CAN_FORK or any(settings.of(service).on_gpu for service in services):
        yield None
        return
    engines = [f"counterpose_services.{service}.engine" for service in services]
    with fork_server(folder / "workers", [*engines, *WORKERS_IMPORT], settings.threads) as command:
        yield command


@contextmanager
def _ray(folder: Path, python: str | None = None) -> Iterator[None]:
    """Start a cluster that requires the token of this folder and sends no usage reports.

    Args:
        folder: where Ray keeps its sockets and logs.
        python: the command that starts a worker; None for this Python.
    """
    _prepare_environment(folder / "token")
    # Ray reads the environment on import.
    import ray
    from ray import serve

    _start_node(
        partial(
            ray.init,
            address="local",
            _temp_dir=str(folder / "ray"),
            # Otherwise Ray binds the address by which other machines reach this one.
            _node_ip_address="127.0.0.1",
            object_store_memory=OBJECT_STORE_BYTES,
            # Saves a process and an open port; the gateway shows the state.
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            runtime_env={} if python is None else {"py_executable": python},
        )
    )
    try:
        _end_unused(ray._private.worker._global_node)
        yield
    finally:
        serve.shutdown()
        ray.shutdown()


def _start_node(start: Callable[[], object]) -> None:
    """Start Ray's node, again where it took longer than Ray waits for it, as on a loaded machine.

    Raises:
        BackendUnavailable: it did not start.
    """
    before = set(descendants(os.getpid()))
    for left in reversed(range(MOST_STARTS)):
        try:
            start()
            return
        # Ray has no narrower exception for a node that does not start.
        except Exception as error:
            # Its processes are nobody's now, and a second node would run beside them.
            for pid in set(descendants(os.getpid())) - before:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left or _TOOK_TOO_LONG not in str(error):
                raise BackendUnavailable(f"Ray did not start: {error}") from error
            _logger.warning("Ray's node did not start in Ray's 30 s; it is started again")


def _end_unused(node: Any) -> None:
    """End three processes that Ray has no option against: 170 MB, and a hundredth of a processor at rest."""
    # It copies workers' output to the driver, which has asked for none.
    node.kill_log_monitor()
    # It starts further nodes, and this cluster has one.
    node.kill_monitor()
    # Without the dashboard, it would only send usage reports, which are turned off.
    node.kill_dashboard()


def _prepare_environment(token: Path) -> None:
    """Set Ray's token and options, and remove the address of any cluster in the caller's environment."""
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="utf-8")
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray checks every 10 s by default; this machine's only proxy should restart sooner.
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "3",
        # Ten times a second by default, which takes a twentieth of a processor; twice is soon enough.
        "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
        # By default a proxy that is not ready after 5 s is killed, and the start fails.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
        # Ray serves its metrics on every address and to everybody: the gateway has its own.
        "RAY_enable_metrics_collection": "0",
        # Nor need they be gathered then, which every process does ten times a second by default.
        "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "60000",
        "RAY_metrics_report_interval_ms": "60000",
        "RAY_task_events_report_interval_ms": "0",
        "RAY_event_stats": "0",
        # By default a worker for each processor, which would wait for tasks, and there are only actors.
        "RAY_prestart_worker_first_driver": "0",
        # Ports that cannot be opened: Ray has no other way to serve none, and goes on without.
        "DASHBOARD_METRIC_PORT": "-1",
        "AUTOSCALER_METRIC_PORT": "-1",
    }
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.pop("RAY_AUTH_TOKEN", None)


def _deploy(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    from ray import serve

    serve.start(proxy_location="HeadOnly", http_options=http_options(settings))
    targets = []
    # One list of applications for laptop, cluster and Kubernetes.
    for each in serve_config(settings, services)["applications"]:
        module, _, builder = each["import_path"].partition(":")
        application = getattr(importlib.import_module(module), builder)(settings)
        targets.append(serve.RunTarget(application, name=each["name"], route_prefix=each["route_prefix"]))
    try:
        serve.run_many(targets)
    except RuntimeError as error:
        # Serve raises one error for all; the states of the deployments have the reasons.
        raise BackendUnavailable(f"not every service started: {_complaints()}") from error


def _complaints() -> str:
    """Return the last line of each failed deployment's message."""
    from ray import serve

    messages = [
        # A remote traceback, whose last line is the error.
        f"{name}: {deployment.message.strip().splitlines()[-1].strip()}"
        for name, application in serve.status().applications.items()
        for deployment in application.deployments.values()
        if deployment.message.strip()
    ]
    return "; ".join(messages)


def _write_state(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    state = {"pid": os.getpid(), "url": services_url(settings), "services": list(services)}
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = settings.state_dir / f"{STATE_FILE}.new"
    written.write_text(json.dumps(state), encoding="utf-8")
    # A process that waits for the file must not read half of it.
    written.replace(settings.state_dir / STATE_FILE)
