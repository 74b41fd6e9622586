"""``client.dataset_interfaces``: learn a dataset's classes, then generate them under any shift."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from counterpose._dataset_interface_run import DATASET_INTERFACES, AsyncDatasetInterface, DatasetInterface
from counterpose.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from counterpose_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceCreate, LearningPrompts
from counterpose_core.contract.token_files import TokenFilesAdded


class _Creating(RunVerbs[H]):
    """How a dataset interface is requested."""

    _calls = DATASET_INTERFACES

    def create(
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
    ) -> H:
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
        body = DatasetInterfaceCreate.model_validate(fields)
        return self._take(DATASET_INTERFACES.create(body, idempotency_key))


class DatasetInterfaces(_Creating[DatasetInterface], RunResource[DatasetInterface]):
    """``/v1/dataset-interfaces``."""

    _handle = DatasetInterface


class AsyncDatasetInterfaces(
    _Creating[Coroutine[Any, Any, AsyncDatasetInterface]], AsyncRunResource[AsyncDatasetInterface]
):
    """``/v1/dataset-interfaces``."""

    _handle = AsyncDatasetInterface
