"""A check as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpose_services.serving.check import Check, CheckedDevice, CheckedService

GIBIBYTE = 2**30


def check_table(check: Check) -> str:
    """Return the check as text: the verdict, the problems, then a row for each service and device."""
    titles = ("service", "device", "dtype", "models", "weights", "allowance", "load", "request", "peak")
    rows: list[tuple[str, ...]] = [titles, *(_row(service) for service in check.services)]
    problems = len(check.problems)
    verdict = "everything is here and fits" if check.ok else f"{problems} problem{'s' * (problems > 1)}"
    lines = [f"suite {check.suite} in {check.suite_root}: {verdict}", ""]
    lines += [*(f"- {problem}" for problem in check.problems), ""] if check.problems else []
    return "\n".join([*lines, *_aligned(rows), "", *_devices(check), ""])


def _row(one: CheckedService) -> tuple[str, ...]:
    here = sum(model.folder is not None for model in one.models)
    tried = one.trial if one.trial is not None and one.trial.problem is None else None
    return (
        one.service,
        one.device,
        one.dtype,
        f"{here} of {len(one.models)}",
        _gib(one.weights_bytes),
        _gib(one.allowance_bytes),
        "" if tried is None else f"{tried.load_seconds:.1f} s",
        "" if tried is None else f"{tried.request_seconds:.1f} s",
        "" if tried is None else _gib(tried.peak_bytes),
    )


def _devices(check: Check) -> Iterator[str]:
    for one in check.devices:
        verdict = "fits" if not one.problems else "does not fit"
        yield (
            f"{one.device}: about {_gib(one.needed_bytes)} of {_gib(one.memory_bytes)} for "
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


def _gib(size: int) -> str:
    return f"{size / GIBIBYTE:.2f} GiB"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
