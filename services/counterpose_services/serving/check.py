"""The check before the first start: are a suite's models here, do they fit, and do they answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from counterpose_core.errors import BackendUnavailable, UnknownModel
from counterpose_core.suite import Suite, load_suite
from counterpose_services.models.device import require_device
from counterpose_services.models.inventory import FoundModel, allowance_bytes, models_of
from counterpose_services.models.preflight import device_bytes, licence_refusals
from counterpose_services.openai_api.requirements import require_server
from counterpose_services.serving.engine_trial import Trial
from counterpose_services.settings import ServiceName, ServiceSettings, own_variable


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
    suite = load_suite(settings.suite, settings)
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
    problems = licence_refusals(settings, service)
    problems += [model.problem for model in models if model.problem is not None]
    try:
        require_device(settings, service)
        require_server(service, suite, settings)
    except (BackendUnavailable, UnknownModel) as error:
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
            units = device_bytes(device)
        except (RuntimeError, AssertionError):
            # A device that is absent is a problem of each service on it.
            continue
        if units:
            yield CheckedDevice(
                device=device,
                services=[one.service for one in users],
                needed_bytes=sum(one.needed_bytes for one in users),
                memory_bytes=sum(units),
                problems=list(_shortages(device, users, units)),
            )


def _shortages(device: str, users: Sequence[CheckedService], units: Sequence[int]) -> Iterator[str]:
    """Yield a sentence for each replica larger than any GPU, and one if all together are too large."""
    for one in users:
        replica = one.needed_bytes // one.replicas
        if replica > max(units):
            yield (
                f"the {one.service} needs about {_gib(replica)} GiB on {device!r}, of which the largest has "
                f"{_gib(max(units))}; set {own_variable(one.service, 'dtype')} to a smaller one or "
                f"{own_variable(one.service, 'device')} to another"
            )
    needed = sum(one.needed_bytes for one in users)
    if needed > sum(units):
        names = ", ".join(one.service for one in users)
        yield (
            f"{names}: about {_gib(needed)} GiB of all replicas on {device!r}, "
            f"which has {_gib(sum(units))}; take a smaller dtype, fewer replicas or another device for one"
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


def run_trial(service: ServiceName, settings: ServiceSettings) -> Trial:
    """Try one service in a process of its own, which may be killed for the memory that it takes."""
    ended = subprocess.run(
        [sys.executable, "-m", "counterpose_services.serving.engine_trial", service],
        input=settings.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
        # As a replica has it; and nothing may be downloaded.
        env=os.environ | {"OMP_NUM_THREADS": str(settings.threads), "HF_HUB_OFFLINE": "1"},
    )
    if ended.returncode != 0:
        told = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        return Trial(problem=f"the {service} did not answer: its process ended ({told})")
    return Trial.model_validate_json(ended.stdout.strip().splitlines()[-1])


GIBIBYTE = 2**30


def check_table(check: Check) -> str:
    """Return the check as text: the verdict, the problems, then a row for each service and device."""
    titles = ("service", "device", "dtype", "models", "weights", "allowance", "load", "request", "peak")
    rows: list[tuple[str, ...]] = [titles, *(_row(service) for service in check.services)]
    problems = len(check.problems)
    verdict = "everything is here and fits" if check.ok else f"{problems} problem{'s' * (problems > 1)}"
    lines = [f"suite {check.suite} in {check.suite_root}: {verdict}", ""]
    lines += [*(f"- {problem}" for problem in check.problems), ""] if check.problems else []
    return "\n".join([*lines, *_aligned(rows), "", *_device_lines(check), ""])


def _row(one: CheckedService) -> tuple[str, ...]:
    here = sum(model.folder is not None for model in one.models)
    tried = one.trial if one.trial is not None and one.trial.problem is None else None
    return (
        one.service,
        one.device,
        one.dtype,
        f"{here} of {len(one.models)}",
        _gibibytes(one.weights_bytes),
        _gibibytes(one.allowance_bytes),
        "" if tried is None else f"{tried.load_seconds:.1f} s",
        "" if tried is None else f"{tried.request_seconds:.1f} s",
        "" if tried is None else _gibibytes(tried.peak_bytes),
    )


def _device_lines(check: Check) -> Iterator[str]:
    for one in check.devices:
        verdict = "fits" if not one.problems else "does not fit"
        yield (
            f"{one.device}: about {_gibibytes(one.needed_bytes)} of {_gibibytes(one.memory_bytes)} for "
            f"{', '.join(one.services)}: {verdict}{_uncounted(check, one)}"
        )


def _uncounted(check: Check, device: CheckedDevice) -> str:
    unknown = [
        model.name
        for service in check.services
        if service.device == device.device
        for model in service.models
        if model.weights_bytes is None
    ]
    return f", not counting {', '.join(unknown)}" if unknown else ""


def _gibibytes(size: int) -> str:
    return f"{size / GIBIBYTE:.2f} GiB"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
