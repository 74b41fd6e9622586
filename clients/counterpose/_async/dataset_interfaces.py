"""``client.dataset_interfaces``: learn a dataset's classes, then generate them under any shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpose._async.images import AsyncGeneratedImages
from counterpose._async.run_handle import AsyncRunHandle
from counterpose._async.run_resource import AsyncRunResource
from counterpose._calls import Call, idempotency_headers, reading
from counterpose._run_calls import RunCalls
from counterpose_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    Images,
    ImagesCreate,
    LearningPrompts,
    TokenItem,
)
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.token_files import TokenFilesAdded

GENERATE_TIMEOUT_S = 300.0
"""64 images of a published model take a minute on one accelerator, and others may be queued first."""


class AsyncDatasetInterface(AsyncRunHandle[TokenItem, DatasetInterfaceSummary]):
    """A dataset interface, followed by awaitable calls."""

    _calls = RunCalls("dataset-interface", TokenItem, DatasetInterfaceSummary)

    async def generate(
        self,
        *,
        class_name: str,
        shift: str | None = None,
        n: int = 8,
        seed: int = 0,
        by_name: bool = False,
        steps: int | None = None,
        guidance: float | None = None,
        scheduler: str | None = None,
    ) -> AsyncGeneratedImages:
        """Generate images of a class under a shift, in one call.

        Image i of a seed starts from the same noise under every shift.

        Args:
            class_name: one of the interface's classes.
            shift: words ("in the snow"), a name of the catalogue, or a prompt with ``<class>``; None for
                no shift.
            n: number of images, 1 to 64.
            seed: equal seeds give equal images.
            by_name: use the class's plain name instead of its token.
            steps: denoising steps; default: the suite's.
            guidance: guidance scale; default: the suite's.
            scheduler: diffusion scheduler; default: the suite's.

        Raises:
            InvalidRequest: there is no such class, or it has no token yet.
            PromptTooLong: the shift does not fit the text encoder.
        """
        body = checked(
            ImagesCreate,
            {
                "class_name": class_name,
                "shift": shift,
                "n": n,
                "seed": seed,
                "by_name": by_name,
                "steps": steps,
                "guidance": guidance,
                "scheduler": scheduler,
            },
        )
        # Equal requests give equal images: it is safe to retry.
        call = Call(
            "POST",
            self._calls.path(self.id, "/generate"),
            reading(Images),
            body=body,
            headers=idempotency_headers(None),
            timeout=GENERATE_TIMEOUT_S,
        )
        return AsyncGeneratedImages.of(self._sender, await self._sender.send(call))


class AsyncDatasetInterfaces(AsyncRunResource[AsyncDatasetInterface]):
    """``/v1/dataset-interfaces``."""

    _handle = AsyncDatasetInterface

    async def create(
        self,
        *,
        dataset: str,
        classes: Sequence[str] | None = None,
        token_init: str = CLASS_NAME,
        prompts: LearningPrompts | None = None,
        vectors: int | None = None,
        steps: int | None = None,
        limit: int | None = None,
        tokens: TokenFilesAdded | Mapping[str, str] | None = None,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> AsyncDatasetInterface:
        """Start learning one token per class, or taking published ones; it continues if you do not wait.

        Args:
            dataset: the dataset's name.
            classes: the classes to learn; default: all.
            token_init: ``"class-name"``, or one word that every token starts from ("pet").
            prompts: train with prompt templates or with each image's caption; default: the suite's.
            vectors: vectors per class; default: the suite's.
            steps: training steps per class; default: the suite's.
            limit: use at most this many images of each class.
            tokens: published tokens, which are taken in place of learning: what ``client.token_files.upload``
                returned. Classes without one are left out.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
        """
        fields: dict[str, Any] = {
            "dataset": dataset,
            "classes": None if classes is None else list(classes),
            "token_init": token_init,
            "prompts": prompts,
            "vectors": vectors,
            "steps": steps,
            "limit": limit,
            "seed": seed,
        }
        if tokens is not None:
            # An older gateway, which takes none, must not be told of them.
            fields["tokens"] = dict(tokens.tokens if isinstance(tokens, TokenFilesAdded) else tokens)
        return await self._create(checked(DatasetInterfaceCreate, fields), idempotency_key)
