"""How much users may store: datasets, images and their bytes as stored, in each dataset and in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from counterpose_core.errors import InvalidRequest, QuotaExceeded
from counterpose_gateway.records.sources import NewSource, Stored
from counterpose_gateway.settings import GatewaySettings


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The most that may be stored, and of what; every refusal names the setting that permits more."""

    datasets: int
    dataset_images: int
    dataset_bytes: int
    images: int
    stored_bytes: int
    png_chunks: int
    dataset_seconds: int | None = None

    @classmethod
    def of(cls, settings: GatewaySettings) -> Quotas:
        """Return the quotas of a gateway."""
        return cls(
            datasets=settings.max_datasets,
            dataset_images=settings.max_dataset_images,
            dataset_bytes=settings.max_dataset_bytes,
            images=settings.max_images,
            stored_bytes=settings.max_stored_bytes,
            png_chunks=settings.max_png_chunks,
            dataset_seconds=settings.dataset_ttl_seconds,
        )

    def check_datasets(self, number: int) -> None:
        """Refuse a dataset with which there would be ``number`` of them.

        Raises:
            QuotaExceeded: these are too many.
        """
        if number > self.datasets:
            raise QuotaExceeded(
                f"there are {self.datasets} datasets already, the most allowed (COUNTERPOSE_MAX_DATASETS); "
                "add the images to one of them"
            )

    def end_of_dataset(self, expires_in: int | None, now: float) -> float | None:
        """Return when a dataset that asks for so many seconds, or for no end, ends; since the epoch.

        Raises:
            InvalidRequest: it asks for more than it may have.
        """
        longest = self.dataset_seconds
        if longest is not None and expires_in is not None and expires_in > longest:
            raise InvalidRequest(
                f"a dataset is kept for {longest} s at most (COUNTERPOSE_DATASET_TTL_SECONDS), not for "
                f"{expires_in} s; ask for less",
                pointer="/expires_in",
            )
        seconds = longest if expires_in is None else expires_in
        return None if seconds is None else now + seconds

    def check(self, stored: Stored) -> None:
        """Refuse images with which this much would be stored.

        Raises:
            QuotaExceeded: it is more than a quota.
        """
        if (over := self._over(stored)) is not None:
            raise QuotaExceeded(f"with this image {over}; leave it out")

    def check_import(self, stored: Stored) -> None:
        """Refuse a part of an import with which this much would be stored.

        Raises:
            QuotaExceeded: it is more than a quota.
        """
        if (over := self._over(stored)) is not None:
            raise QuotaExceeded(
                f"the import stops, because {over}; raise the limit of the workers and ask for it again"
            )

    def check_kept(self, stored: Stored) -> None:
        """Refuse what belongs to no dataset, such as files of tokens, with which this much would be stored.

        Raises:
            QuotaExceeded: it is more than a quota.
        """
        if (over := self._over(stored)) is not None:
            raise QuotaExceeded(f"with this, {over}; delete a dataset and wait an hour, or raise the limit")

    def _over(self, stored: Stored) -> str | None:
        for found, most, unit, where, setting in (
            (stored.images, self.dataset_images, "images", "the dataset", "COUNTERPOSE_MAX_DATASET_IMAGES"),
            (stored.bytes, self.dataset_bytes, "bytes", "the dataset", "COUNTERPOSE_MAX_DATASET_BYTES"),
            (stored.all_images, self.images, "images", "all datasets together", "COUNTERPOSE_MAX_IMAGES"),
            (stored.all_bytes, self.stored_bytes, "bytes", "the tenant", "COUNTERPOSE_MAX_STORED_BYTES"),
        ):  # fmt: skip
            if found > most:
                return f"{where} would have {found} {unit} as stored, more than {most} ({setting})"
        return None


class Room:
    """What is left of the quotas while images are taken in, before the ledger counts them.

    ``is_known`` says whether an image is in the dataset already and needs no room.
    """

    def __init__(self, quotas: Quotas, stored: Stored, is_known: Callable[[NewSource], bool]) -> None:
        self.quotas = quotas
        self._stored = stored
        self._is_known = is_known

    def take(self, source: NewSource) -> None:
        """Take the room of one image, whose bytes are not stored yet.

        Raises:
            QuotaExceeded: there is none.
        """
        after = self._stored.plus(1, source.stored)
        try:
            self.quotas.check(after)
        except QuotaExceeded:
            # Looked up only here: most images come once, and there is room for them.
            if not self._is_known(source):
                raise
        else:
            self._stored = after
