"""One request under way: what its items share, what became of each, and what all of it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.editor import EditorPreset
from faultline_core.editing.denoiser import Cancellation, CountingDenoiser, raise_if_cancelled
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.virtual_inversion import virtual_inversion
from faultline_core.errors import FaultlineError, NumericalFailure, ResourceExhausted
from faultline_core.images import Pixels, decode_image, encode_raw
from faultline_core.types import BlobRef, Cost, Decoder
from faultline_services.editor.buckets import Buckets
from faultline_services.editor.float32_retry import retry_in_float32, spoilt_rows
from faultline_services.editor.inversions import InversionCache, Source, invert
from faultline_services.editor.pictures import centre_crop
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.sampling import picture_noise, preset_timetable

T = TypeVar("T")


class Company(Protocol):
    """Inverts sources together with something else that is made of them on the way."""

    def __call__(
        self, sources: Sequence[Source], latents: Tensor, text: Tensor, batch: int
    ) -> tuple[Inverted, list[Cost]]:
        """Invert latents (B, C, h, w) under captions (B, L, D), ``batch`` samples a call."""
        ...


@dataclass(frozen=True)
class Made:
    """What an item came to: the latents (N, C, h, w) of its pictures, and what they took."""

    latents: Tensor
    cost: Cost


class Job:
    """The work of one request; what goes wrong with an item or its source stays with that item."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: BlobStore,
        cache: InversionCache,
        buckets: Buckets,
        decoder: Decoder = "full",
    ) -> None:
        self._pipeline, self._store, self._cache, self._buckets = pipeline, store, cache, buckets
        self._decoder: Decoder = decoder
        self._started = perf_counter()
        self._inversion_costs: dict[Source, Cost] = {}
        self._vae, self._retries = Cost(), 0
        self.denoiser = CountingDenoiser(pipeline.denoiser, pipeline.flops.evaluation)
        self.pictures: dict[Source, Pixels] = {}
        self.inverted: dict[Source, Inverted] = {}
        self.source_problems: dict[Source, FaultlineError] = {}
        self.made: dict[int, Made] = {}
        self.problems: dict[int, FaultlineError] = {}

    def read(self, sources: Sequence[Source]) -> None:
        """Read each distinct source as the editor sees it."""
        for source in dict.fromkeys(sources):
            try:
                self._pipeline.prompts.tokenize(source.caption)
                pixels = decode_image(self._store.get(source.image))
                self.pictures[source] = centre_crop(pixels, self._pipeline.codec.resolution)
            except FaultlineError as error:
                self.source_problems[source] = error

    def invert(self, preset: EditorPreset, cancelled: Cancellation, company: Company | None = None) -> None:
        """Invert what was read; every finished batch is remembered at once, should the request end early."""
        known = {source: self._cache.find(source, preset) for source in self.pictures}
        self.inverted |= {source: found for source, found in known.items() if found is not None}
        missing = [source for source in self.pictures if source not in self.inverted]

        def work(sources: Sequence[Source]) -> None:
            self._invert(sources, preset, cancelled)

        if company is not None:
            bucket = self._buckets.of("invert in company")

            def work_together(sources: Sequence[Source]) -> None:
                self._invert(sources, preset, cancelled, partial(company, batch=bucket.size))

            # What does not fit together may fit one after the other.
            missing = bucket.run(missing, work_together)
        for source in self._buckets.of(f"invert {preset.inversion}").run(missing, work):
            self.source_problems[source] = ResourceExhausted(
                f"inverting {source.image!r} needs more memory than there is"
            )

    def _invert(
        self,
        sources: Sequence[Source],
        preset: EditorPreset,
        cancelled: Cancellation,
        together: Callable[[Sequence[Source], Tensor, Tensor], tuple[Inverted, list[Cost]]] | None = None,
    ) -> None:
        pipeline = self._pipeline
        latents = pipeline.codec.encode([self.pictures[source] for source in sources])
        text = pipeline.prompts.encode([source.caption for source in sources])
        table = preset_timetable(pipeline.schedule, preset)
        if together is not None:
            inverted, costs = together(sources, latents, text)
        elif preset.inversion == "virtual":
            noise = picture_noise(preset, [source.image for source in sources], pipeline.latent_shape)
            inverted = virtual_inversion(table, latents, pipeline.null, noise.to(latents))
            costs = [Cost()] * len(sources)
        else:
            inverted, costs = invert(self.denoiser, table, preset, latents, text, pipeline.null, cancelled)
        finite, parts = inverted.finite.tolist(), [inverted.select(row) for row in range(len(sources))]
        spoilt = spoilt_rows(inverted, preset, pipeline.denoiser.precision)
        if spoilt:
            chosen = latents[spoilt], text[spoilt]
            again = retry_in_float32(pipeline, self.denoiser, table, preset, *chosen, cancelled)
            for row, (part, cost) in zip(spoilt, again, strict=True):
                parts[row], costs[row], finite[row] = part, costs[row] + cost, bool(part.finite)
        self._vae += pipeline.flops.encoding(len(sources))
        self._retries += len(spoilt)
        for row, source in enumerate(sources):
            self._inversion_costs[source] = costs[row] + pipeline.flops.encoding(1)
            if finite[row]:
                self.inverted[source] = parts[row]
                # Before the next batch is begun: a cancelled call's successor need not begin anew.
                self._cache.keep(source, preset, parts[row])
            else:
                tried = f"{pipeline.denoiser.precision}{', and again in float32' if row in spoilt else ''}"
                self.source_problems[source] = NumericalFailure(
                    f"the {preset.inversion} inversion of {source.image!r} is not finite in {tried}"
                )

    def claim_inversion_cost(self, source: Source) -> Cost:
        """Return what inverting the source took to the first item that asks; nothing if it was cached."""
        return self._inversion_costs.pop(source, Cost())

    def settle(self, index: int, latents: Tensor, cost: Cost) -> None:
        """Note what item ``index`` came to, or that its numbers are not finite."""
        if bool(torch.isfinite(latents).all()):
            decoding = self._pipeline.flops.decoding(latents.shape[0], self._decoder)
            self.made[index] = Made(latents, cost + decoding)
        else:
            precision = self._pipeline.denoiser.precision
            self.problems[index] = NumericalFailure(
                f"the latents of item {index} are not finite in {precision}"
            )

    def exhaust(self, indices: Sequence[int]) -> None:
        """Note the items of which not even one sample fits into memory."""
        for index in indices:
            self.problems[index] = ResourceExhausted(f"item {index} alone needs more memory than there is")

    def outcomes(
        self, items: int, build: Callable[[int, list[BlobRef], Cost], T], cancelled: Cancellation
    ) -> list[Outcome[T]]:
        """Decode and store the pictures of every item made; ``build`` turns them into its value."""
        pictures = self._decode(cancelled)
        whole = self.cost()
        found = []
        for index in range(items):
            if index in self.problems:
                found.append(Outcome[T](problem=Problem.of(self.problems[index])))
                continue
            refs = [self._store.put(encode_raw(picture)) for picture in pictures[index]]
            cost = self._pipeline.flops.evaluation.priced(self.made[index].cost)
            cost = with_share_of_time(cost, whole, items)
            found.append(Outcome[T](value=build(index, refs, cost)))
        return found

    def _decode(self, cancelled: Cancellation) -> dict[int, list[Pixels]]:
        rows = [(index, row) for index, made in self.made.items() for row in made.latents]
        pictures: dict[int, list[Pixels]] = {index: [] for index in self.made}

        def work(batch: Sequence[tuple[int, Tensor]]) -> None:
            raise_if_cancelled(cancelled)
            latents = torch.stack([each for _, each in batch])
            decoded = self._pipeline.codec.decode(latents, self._decoder)
            self._vae += self._pipeline.flops.decoding(len(batch), self._decoder)
            for (index, _), picture in zip(batch, decoded, strict=True):
                pictures[index].append(picture)

        self.exhaust([index for index, _ in self._buckets.of(f"decode {self._decoder}").run(rows, work)])
        return pictures

    def cost(self) -> Cost:
        """Everything the request took so far."""
        counted = self._vae + Cost(float32_retries=self._retries)
        return self.denoiser.cost + counted + Cost(seconds=perf_counter() - self._started)


def with_share_of_time(cost: Cost, whole: Cost, items: int) -> Cost:
    """Give an item its share of the wall time, by evaluations where there were any."""
    # A call whose inversions were all cached may have made none.
    share = cost.unet_evaluations / whole.unet_evaluations if whole.unet_evaluations else 1 / items
    return cost.model_copy(update={"seconds": whole.seconds * share})
