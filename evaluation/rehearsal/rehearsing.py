"""One case: its models are written, checked, served, asked once, measured and removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import torch
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import CounterposeError
from counterpose_core.suite import Suite
from counterpose_processes.ports import free_port
from counterpose_services.models.inventory import allowance_bytes
from counterpose_services.models.preflight import device_bytes
from counterpose_services.serving.check import check_services
from counterpose_services.serving.cluster import STATE_FILE, services_url
from counterpose_services.serving.engine_trial import REQUESTS
from counterpose_services.settings import ServiceSettings
from evaluation.rehearsal.architectures import Size
from evaluation.rehearsal.cases import Case, suite_toml
from evaluation.rehearsal.replica import ReplicaWatch, Usage
from evaluation.rehearsal.report import Memory, Row
from evaluation.rehearsal.repositories import Repository
from evaluation.rehearsal.served import ServedService

START_S, REQUEST_S, STOP_S, POLL_S = 1800.0, 4 * 3600.0, 120.0, 0.5
COUNTED = "counted on the meta device only"
"""What is said of a case that does not fit, and was neither written nor served."""
SPARE_BYTES = 2**30
"""Left for everything else on the machine."""
GIBIBYTE = 2**30


@dataclass(frozen=True)
class Options:
    """How a case is rehearsed; ``resolution`` is None for the suite's own."""

    work: Path
    device: str = "cpu"
    steps: int = 2
    threads: int = 1
    size: Size = "published"
    resolution: int | None = None
    keep: bool = False


def rehearse(case: Case, options: Options) -> Row:
    """Rehearse one case; what fails or does not fit is told in the row."""
    suite, repositories = case.tailored(options.steps, options.resolution), case.writers(options.size)
    row = _unmeasured(case, options, repositories)
    needed = row.memory.computed + allowance_bytes(case.service, suite, case.precision(options.device), None)
    there = max(device_bytes(options.device), default=0) - SPARE_BYTES
    if needed > there:
        return row.model_copy(
            update={
                "problem": f"{COUNTED}: needs {needed / GIBIBYTE:.1f} GiB, "
                f"and {there / GIBIBYTE:.1f} are free"
            }
        )
    folder = options.work / case.name
    try:
        return _measured(case, options, suite, repositories, row, folder)
    except (CounterposeError, RuntimeError, OSError, httpx.HTTPError) as error:
        told = error.detail if isinstance(error, CounterposeError) else f"{type(error).__name__}: {error}"
        return row.model_copy(update={"problem": told.strip().splitlines()[0]})
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _unmeasured(case: Case, options: Options, repositories: Sequence[Repository]) -> Row:
    dtype = case.precision(options.device)
    # Of an editor, the UNet alone takes the service's precision.
    part = "unet" if case.service == "editor" else ""
    precision: Mapping[str, torch.dtype] = {part: getattr(torch, dtype)}
    return Row(
        case=case.name,
        models=case.models,
        device=options.device,
        dtype=dtype,
        threads=options.threads,
        stored_bytes=sum(repository.stored_bytes for repository in repositories),
        memory=Memory(computed=sum(repository.weights_bytes(precision) for repository in repositories)),
    )


def _measured(
    case: Case,
    options: Options,
    suite: Suite,
    repositories: Sequence[Repository],
    row: Row,
    folder: Path,
) -> Row:
    started = time.monotonic()
    for repository in tqdm(repositories, desc=f"{case.name}: writing", disable=None):
        repository.write(folder / "models")
    _leave_the_page_cache(folder / "models")
    written = time.monotonic()
    (folder / "suite.toml").write_text(suite_toml(suite), encoding="utf-8")
    settings = _settings(case, options, folder, [repository.place for repository in repositories])
    [checked] = check_services(settings, [case.service], load=False).services
    if checked.problems:
        raise RuntimeError(checked.problems[0])
    row = row.model_copy(
        update={
            "steps": options.steps if case.service == "editor" else None,
            "write_seconds": written - started,
            "memory": row.memory.model_copy(
                update={"weights": checked.weights_bytes, "allowance": checked.allowance_bytes}
            ),
        }
    )
    begun = time.monotonic()
    with _launched(case, settings, folder) as launcher:
        watch = ReplicaWatch(launcher.pid, case.service, gpu=options.device != "cpu")
        with watch.watching():
            _wait_until_ready(launcher, settings, folder)
            ready = time.monotonic()
            costs = _ask(case, suite, settings)
            answered, usage = time.monotonic(), watch.usage()
    times = {"start_seconds": ready - begun, "request_seconds": answered - ready}
    return _with_usage(row.model_copy(update=times | {"evaluations": costs}), usage)


def _with_usage(row: Row, usage: Usage) -> Row:
    taken = {"resident": usage.resident_bytes, "own": usage.own_bytes, "gpu": usage.gpu_bytes}
    memory = row.memory.model_copy(update=taken)
    read = {"called_bytes": usage.called_bytes, "disk_bytes": usage.disk_bytes}
    return row.model_copy(update={"memory": memory, **read})


def _ask(case: Case, suite: Suite, settings: ServiceSettings) -> int | None:
    """Send the requests of a trial; return the UNet's evaluations if it has one."""
    url = f"{services_url(settings)}/{case.service}"
    with ServedService(url, settings.shared_secret(), REQUEST_S) as served:
        REQUESTS[case.service](served, suite, BlobStore(settings.store_url))
    return sum(cost.unet_evaluations for cost in served.costs) or None


def _settings(case: Case, options: Options, folder: Path, models: Sequence[str]) -> ServiceSettings:
    own = {"device": options.device, "dtype": case.precision(options.device)}
    return ServiceSettings.model_validate(
        {
            "suite": str(folder / "suite.toml"),
            "suite_root": folder / "models",
            "state_dir": folder / "state",
            "port": free_port(),
            "threads": options.threads,
            "request_timeout_s": REQUEST_S,
            # The networks are the published ones, the numbers in them are ours.
            "allowed_licences": tuple(models),
            case.service: own,
        }
    )


@contextmanager
def _launched(case: Case, settings: ServiceSettings, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `counterpose-services up` for one service, as its user does, and stop it at the end."""
    own = settings.of(case.service)
    variables = {
        "COUNTERPOSE_SUITE": settings.suite,
        "COUNTERPOSE_SUITE_ROOT": str(settings.suite_root),
        "COUNTERPOSE_STATE_DIR": str(settings.state_dir),
        "COUNTERPOSE_SERVICES_PORT": str(settings.port),
        "COUNTERPOSE_SERVICES_THREADS": str(settings.threads),
        "COUNTERPOSE_SERVICES_REQUEST_TIMEOUT_S": str(settings.request_timeout_s),
        "COUNTERPOSE_SERVICES_ALLOWED_LICENCES": ",".join(settings.allowed_licences),
        f"COUNTERPOSE_{case.service.upper()}_DEVICE": own.device,
        f"COUNTERPOSE_{case.service.upper()}_DTYPE": own.dtype,
        "HF_HUB_OFFLINE": "1",
        # Ray's workers are patient by default: any other process would come first and be timed, too.
        "RAY_worker_niceness": "0",
    }
    command = [sys.executable, "-m", "counterpose_services.serving.launcher", "up", "--only", case.service]
    with (folder / "services.log").open("wb") as log:
        launcher = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | variables)
        try:
            yield launcher
        finally:
            launcher.send_signal(signal.SIGTERM)
            try:
                launcher.wait(STOP_S)
            except subprocess.TimeoutExpired:
                launcher.kill()


def _wait_until_ready(launcher: subprocess.Popen[bytes], settings: ServiceSettings, folder: Path) -> None:
    deadline = time.monotonic() + START_S
    while not (settings.state_dir / STATE_FILE).exists():
        if launcher.poll() is not None or time.monotonic() > deadline:
            told = (folder / "services.log").read_text(encoding="utf-8", errors="replace").splitlines()
            raise RuntimeError(f"the service did not start: {told[-1] if told else 'it said nothing'}")
        time.sleep(POLL_S)


def _leave_the_page_cache(folder: Path) -> None:
    """Have the files on the disk and out of memory, so that reading them counts."""
    for file in (each for each in folder.rglob("*") if each.is_file()):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
