"""The check before the first start: are a suite's models here, do they fit, and do they answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from faultline_core.errors import BackendUnavailable
from faultline_core.suite import Suite, load_suite
from faultline_services.models.device import require_device
from faultline_services.models.inventory import FoundModel, models_of
from faultline_services.models.memory import allowance_bytes, device_bytes
from faultline_services.serving.trial import Trial
from faultline_services.settings import ServiceName, ServiceSettings


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckedModel(_Row):
    """One model: where it is, or where it comes from; what is not known is null."""

    name: str
    folder: str | None
    repository: str | None
    revision: str | None
    download_bytes: int | None
    licence: str | None
    weights_bytes: int | None


class CheckedService(_Row):
    """One service: its models, the memory of one replica, and its trial if there was one."""

    service: ServiceName
    device: str
    dtype: str
    replicas: int
    models: list[CheckedModel]
    weights_bytes: int
    allowance_bytes: int
    trial: Trial | None
    problems: list[str]

    @property
    def needed_bytes(self) -> int:
        """The memory of all replicas."""
        return self.replicas * (self.weights_bytes + self.allowance_bytes)


class CheckedDevice(_Row):
    """One device: what it has, and what the services on it need together."""

    device: str
    services: list[ServiceName]
    needed_bytes: int
    memory_bytes: int
    problems: list[str]


class Check(_Row):
    """Everything that was found; ``ok`` if there is no problem."""

    suite: str
    suite_root: str
    ok: bool
    services: list[CheckedService]
    devices: list[CheckedDevice]

    @property
    def problems(self) -> list[str]:
        """All problems, one sentence each."""
        return _problems(self.services, self.devices)


def check_services(settings: ServiceSettings, services: Sequence[ServiceName], *, load: bool) -> Check:
    """Look for the models of ``services`` and estimate their memory; with ``load``, try them one at a time.

    Raises:
        UnknownModel: there is no such suite.
    """
    suite = load_suite(settings.suite)
    found = [_service(service, suite, settings, load=load) for service in services]
    devices = list(_devices(found))
    return Check(
        suite=suite.name,
        suite_root=str(settings.suite_root),
        ok=not _problems(found, devices),
        services=found,
        devices=devices,
    )


def _problems(services: Sequence[CheckedService], devices: Sequence[CheckedDevice]) -> list[str]:
    named = [problem for service in services for problem in service.problems]
    return named + [problem for device in devices for problem in device.problems]


def _service(service: ServiceName, suite: Suite, settings: ServiceSettings, *, load: bool) -> CheckedService:
    own, models = settings.of(service), models_of(service, suite, settings)
    problems = [model.problem for model in models if model.problem is not None]
    try:
        require_device(settings, service)
    except BackendUnavailable as error:
        problems.append(error.detail)
    trial = run_trial(service, settings) if load and not problems else None
    if trial is not None and trial.problem is not None:
        problems.append(trial.problem)
    folder = models[0].folder if models else None
    return CheckedService(
        service=service,
        device=own.device,
        dtype=own.dtype,
        replicas=own.max_replicas,
        models=[_model(model) for model in models],
        weights_bytes=sum(model.weights_bytes or 0 for model in models),
        allowance_bytes=allowance_bytes(service, suite, own.dtype, folder),
        trial=trial,
        problems=problems,
    )


def _model(model: FoundModel) -> CheckedModel:
    return CheckedModel(
        name=model.name,
        folder=None if model.folder is None else str(model.folder),
        repository=None if model.source is None else model.source.repository,
        revision=model.revision,
        download_bytes=model.download_bytes,
        licence=None if model.source is None else model.source.licence,
        weights_bytes=model.weights_bytes,
    )


def _devices(found: Sequence[CheckedService]) -> Iterator[CheckedDevice]:
    """Yield each device that is there, with the sum of what its services need."""
    for device in dict.fromkeys(one.device for one in found):
        users = [one for one in found if one.device == device]
        try:
            memory = device_bytes(device)
        except (RuntimeError, AssertionError):
            # A device that is absent is a problem of each service on it.
            continue
        needed = sum(one.needed_bytes for one in users)
        short = [
            f"{', '.join(one.service for one in users)} need about {needed / 2**30:.1f} GiB on {device!r}, "
            f"which has {memory / 2**30:.1f}; take a smaller dtype, fewer replicas or another device for one"
        ]
        yield CheckedDevice(
            device=device,
            services=[one.service for one in users],
            needed_bytes=needed,
            memory_bytes=memory,
            problems=short if needed > memory else [],
        )


def run_trial(service: ServiceName, settings: ServiceSettings) -> Trial:
    """Try one service in a process of its own, which may be killed for the memory that it takes."""
    ended = subprocess.run(
        [sys.executable, "-m", "faultline_services.serving.trial", service],
        input=settings.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        told = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        return Trial(problem=f"the {service} did not answer: its process ended ({told})")
    return Trial.model_validate_json(ended.stdout.strip().splitlines()[-1])
