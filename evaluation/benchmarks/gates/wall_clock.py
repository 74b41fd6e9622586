"""E4: seconds of the reference, of diffusers' null-text and of Counterpose, interleaved and on one thread."""

from __future__ import annotations

from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.contestants import diffusers_pipelines
from evaluation.benchmarks.interleaved import Work, interleaved, ratios
from evaluation.benchmarks.report import Row, at_least, row


def rows(bench: Bench) -> list[Row]:
    """Time whole edits, images in and out, and inversions alone."""
    sizes = bench.sizes
    work = bench.work.first(sizes.timed_images, sizes.edits)
    exact, direct = bench.exact(sizes.timed_steps), bench.direct(sizes.timed_steps)
    few = bench.direct(max(1, sizes.timed_steps * sizes.few_steps // sizes.steps))
    contestants: dict[str, Work] = {
        "reference": lambda: bench.reference.edit(work, exact),
        "exact, full sweep": lambda: bench.product.edit(work, exact),
        "exact, lazy sweep": lambda: bench.product.edit_lazily(work, exact, bench.judge),
        "direct, full sweep": lambda: bench.product.edit(work, direct),
        "direct, lazy sweep": lambda: bench.product.edit_lazily(work, direct, bench.judge),
        f"direct, lazy sweep, {few.steps} steps": lambda: bench.product.edit_lazily(work, few, bench.judge),
    }
    for name in contestants:
        if "lazy" in name:
            contestants[name]()  # the judge sees the images once, before the clock runs
    laps = interleaved(contestants, sizes.repetitions)
    shape = f"N={sizes.timed_images}, E={sizes.edits}, S={len(exact.self_replace)}, {exact.steps} steps"
    targets = {"exact, full sweep": 3.5} | {name: 8.0 for name in contestants if "direct, lazy" in name}
    found = []
    for name in list(contestants)[1:]:
        target = at_least(targets[name]) if name in targets else None
        for clock in ("wall", "processor"):
            faster = ratios(laps["reference"][clock], laps[name][clock])
            measure = f"times the reference's speed by {clock} time, {name} ({shape})"
            found.append(row("E4", measure, faster, target, advisory=True))
    return found + _inversions(bench)


def _inversions(bench: Bench) -> list[Row]:
    sizes, exact = bench.sizes, bench.exact(bench.sizes.timed_steps)
    work = bench.work.first(sizes.timed_images, 0)
    loaded, pipeline = diffusers_pipelines.pipeline(bench.suite.model), bench.pipeline

    def one_after_the_other() -> None:
        for image, caption in zip(work.images, work.captions, strict=True):
            made, _ = diffusers_pipelines.null_text(
                loaded,
                pipeline.codec.encode([image]),
                pipeline.prompts.encode([caption]),
                pipeline.null[None],
                steps=exact.steps,
                guidance=exact.guidance,
                inner_steps=exact.inner_steps,
                tolerance=exact.inner_tolerance,
            )
            pipeline.codec.decode(made)

    laps = interleaved(
        {"diffusers": one_after_the_other, "ours": lambda: bench.product.reconstruct(work, exact)},
        sizes.repetitions,
    )
    shape = f"N={sizes.timed_images}, {exact.steps} steps"
    return [
        row(
            "E4",
            f"times the speed of diffusers' null-text algorithm by {clock} time, inversion alone ({shape})",
            ratios(laps["diffusers"][clock], laps["ours"][clock]),
            advisory=True,
        )
        for clock in ("wall", "processor")
    ]
