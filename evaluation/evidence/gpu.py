"""The computed parts of docs/how-to/gpu.md: downloads, memory by service and model, and minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.suite import Suite, load_suite
from counterpose_core.types import ServiceName
from counterpose_services.models.inventory import SIZES, allowance_bytes
from counterpose_services.models.weights import Published, needed_models
from counterpose_services.service_options import BYTES, Precision
from evaluation.evidence.markdown import NONE, table
from evaluation.gpu_minutes.counts import Counted, Counts, Operations, Work, read_counts
from evaluation.paths import ROOT

PAGE = ROOT / "docs/how-to/gpu.md"
SUITES = ("lance", "dataset-interfaces", "discovering-bugs", "sdxl")
GIGABYTE, GIBIBYTE, TERA = 10**9, 2**30, 10**12
IMAGES, EDITS = 100, 6
"""A stress test to give minutes for: images, and edits of each with its placebo."""
SHARES = (0.25, 0.5)
"""Which part of the published rates networks of this kind reach: an assumption, until it is measured."""


@dataclass(frozen=True)
class Gpu:
    """Published dense rates of a GPU, in operations a second, and bytes a second of its memory."""

    name: str
    half: float
    tf32: float
    memory: float


GPUS = (
    Gpu("A100 80 GB SXM", 312 * TERA, 156 * TERA, 2.039 * TERA),
    Gpu("H100 80 GB SXM", 989 * TERA, 494 * TERA, 3.35 * TERA),
)
"""The makers' data sheets, without sparsity."""


def gpu_page(text: str) -> str:
    """Return the page with its computed parts written anew."""
    parts: Mapping[str, Callable[[], list[str]]] = {
        "downloads": downloads,
        "memory": memory,
        "minutes": lambda: minutes(read_counts()),
    }
    for name, part in parts.items():
        begin, end = f"<!-- {name}: written by `make evidence` -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{PAGE.name} lacks the marks of its part {name!r}; add {begin} and {end}")
        text = "\n".join([f"{before}{begin}", "", *part(), "", f"{end}{after}"])
    return text


def downloads() -> list[str]:
    """Return a row for each model of the suites: who needs it, where it is, its size and licence."""
    users: dict[str, list[str]] = {}
    rows: dict[str, tuple[str, str, str]] = {}
    for suite in SUITES:
        for _, name, published in _models(load_suite(suite)):
            users.setdefault(name, [])
            users[name] += [] if suite in users[name] else [suite]
            entry = published.get(name)
            if entry is None:
                rows[name] = ("converted, see below", NONE, NONE)
                continue
            repository = entry.mirror if entry.gone else entry.repository
            size = SIZES[name].download_bytes / GIGABYTE
            rows[name] = (f"`{repository}`", f"{size:.1f} GB", entry.licence or "see the repository")
    header = ("model", "repository", "size", "licence", "suites")
    return table(header, ((f"`{name}`", *row, ", ".join(users[name])) for name, row in rows.items()))


def memory() -> list[str]:
    """Return a row for each suite and service: its weights in each precision, and the allowance in half."""
    rows: list[tuple[str, ...]] = []
    for suite in SUITES:
        loaded, total = load_suite(suite), 0.0
        for service, names in _by_service(loaded).items():
            single, half = (_weights(names, dtype) for dtype in ("float32", "float16"))
            allowance = allowance_bytes(service, loaded, _precision(service), None)
            total += half + allowance
            models = ", ".join(f"`{name}`" for name in names)
            rows.append((suite, service, models, _gib(single), _gib(half), _gib(allowance)))
        rows.append((suite, "**all, as on a GPU**", "", "", f"**{_gib(total)}**", ""))
    header = ("suite", "service", "models", "weights, float32", "weights, float16", "allowance")
    return table(header, rows)


def minutes(counts: Counts) -> list[str]:
    """Return a row for each preset: evaluations an image, and minutes of a stress test on each GPU."""
    rows = []
    for one in counts.counted:
        whole = _work(one)
        used = counts.operations[one.model]
        half, fine = _operations(whole, used)
        cells = [f"{one.suite}", f"`{one.preset}`", f"{whole.forward:,.0f} + {whole.backward:,.0f}"]
        cells.append(f"{(half + fine) / TERA:,.0f} TFLOP")
        rows.append((*cells, *(_span(IMAGES * (half / gpu.half + fine / gpu.tf32)) for gpu in GPUS)))
    header = ("suite", "preset", "evaluations an image, forward + backward", "operations an image")
    return table((*header, *(f"{gpu.name}, minutes" for gpu in GPUS)), rows)


def _work(one: Counted) -> Work:
    """What an image takes with all its edits."""
    image, edit = one.image.model_dump(), one.edit.model_dump()
    return Work.model_validate({name: image[name] + EDITS * edit[name] for name in image})


def _operations(work: Work, used: Operations) -> tuple[float, float]:
    """Operations in half precision and in float32, of the UNet and of the autoencoder."""
    half = work.forward * used.forward + work.backward * used.backward
    # One image is encoded; all others are decoded.
    return half, used.encode + (work.autoencoder - 1) * used.decode


def _span(seconds: float) -> str:
    low, high = (seconds / share / 60 for share in reversed(SHARES))
    return f"{low:.0f} to {high:.0f}" if high >= 10 else f"{low:.1f} to {high:.1f}"


def _models(suite: Suite) -> Iterator[tuple[ServiceName, str, Published]]:
    for service, models in needed_models(suite).items():
        for name, (_, published) in models.items():
            yield service, name, published


def _by_service(suite: Suite) -> Mapping[ServiceName, Sequence[str]]:
    found: dict[ServiceName, list[str]] = {}
    for service, name, _ in _models(suite):
        found.setdefault(service, []).append(name)
    return found


def _precision(service: ServiceName) -> Precision:
    return "float32" if service == "scorer" else "float16"


def _weights(names: Sequence[str], dtype: Precision) -> int:
    assert dtype in BYTES
    return sum(SIZES[name].weights_bytes(dtype) for name in names if name in SIZES)


def _gib(size: float) -> str:
    return f"{size / GIBIBYTE:.1f} GiB"
