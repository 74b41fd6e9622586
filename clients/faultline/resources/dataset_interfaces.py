"""``client.dataset_interfaces``: learn a dataset's classes, then show any shift of them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from faultline._dataset_interface_run import DATASET_INTERFACES, AsyncDatasetInterface, DatasetInterface
from faultline.resources._runs import AsyncRunResource, H, RunResource, Taking
from faultline_core.contract.dataset_interfaces import CLASS_NAME, DatasetInterfaceCreate, LearningPrompts


class _Creating(Taking[H]):
    """How a dataset interface is asked for."""

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
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> H:
        """Start to learn one token for each class; it goes on whether or not anybody waits for it.

        ``classes`` are all of the dataset's unless named. ``token_init`` is ``"class-name"``, or one word
        that all tokens begin as ("pet"). ``prompts`` shows a picture under templates or its own caption;
        with ``vectors``, ``steps`` and ``prompts`` the suite's values are overridden, ``limit`` takes so
        many pictures of each class.
        """
        body = DatasetInterfaceCreate(
            dataset=dataset,
            classes=None if classes is None else list(classes),
            token_init=token_init,
            prompts=prompts,
            vectors=vectors,
            steps=steps,
            limit=limit,
            seed=seed,
        )
        return self._take(DATASET_INTERFACES.create(body, idempotency_key))


class DatasetInterfaces(_Creating[DatasetInterface], RunResource[DatasetInterface]):
    """``/v1/dataset-interfaces``."""

    _handle = DatasetInterface


class AsyncDatasetInterfaces(
    _Creating[Coroutine[Any, Any, AsyncDatasetInterface]], AsyncRunResource[AsyncDatasetInterface]
):
    """``/v1/dataset-interfaces``."""

    _handle = AsyncDatasetInterface
