"""The fakes as engines of the real Serve deployments, for clusters of several nodes.

Each builder is named like its service: ``fakes.served_engines:editor``. The weights are the folder
``suite_root``: another name is another revision. Environment: ``FAKE_SHOWN`` is the folder that says what
images show, which all replicas share; ``FAKE_EDIT_SECONDS`` is how long the editor takes for one item.
``FAKE_HUNGRY`` is a file that may name an item, by image and edited caption, that needs more memory than its
replica may have.
"""

# Annotations are not postponed: Serve passes the settings to a builder only if the annotation is a class.

import hashlib
import os
import resource
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor_backends import CAPABILITIES
from counterpose_core.errors import Cancelled, ResourceExhausted
from counterpose_services.captioner.deployment import CaptionerDeployment
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.editor.deployment import EditorDeployment
from counterpose_services.perturber.deployment import PerturberDeployment
from counterpose_services.scorer.deployment import ScorerDeployment
from counterpose_services.serving.engine_service import application
from counterpose_services.settings import ServiceName, ServiceSettings
from fakes.ports import fake_services, refusing
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld

STEP_SECONDS = 0.05
ROOM, TOO_MUCH = 64 * 2**20, 2**30
"""Bytes that a process may still take, and that a hungry item takes."""
NO_ROOM = ResourceExhausted("this item alone needs more memory than there is")


class FakeEngine:
    """Answers a service's synchronous methods from its fake port, whose own are asynchronous."""

    def __init__(self, service: ServiceName, settings: ServiceSettings) -> None:
        world = FakeWorld(store=SharedStore(BlobStore(settings.store_url)))
        world.shown = KeptShown(Path(os.environ["FAKE_SHOWN"]))
        self._port: Any = getattr(fake_services(world), service)
        revision = hashlib.sha256(settings.suite_root.name.encode()).hexdigest()
        self.identity = ModelIdentity(id=f"fake-{service}", revision=revision)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        asked = getattr(self._port, name)

        def answer(body: Any) -> Any:
            return at_once(asked(body)).model_copy(update={"model": self.identity})

        return answer


class FakeEditorEngine(FakeEngine):
    """The editor: it takes its time, polls whether its caller has gone, and may have a hungry item."""

    capabilities = CAPABILITIES["prompt-to-prompt"]

    def rows(self) -> tuple[int, int]:
        return 0, 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        asked = super().__getattr__(name)

        def answer(body: Any, *, cancelled: Callable[[], bool]) -> Any:
            ends = time.monotonic() + float(os.environ["FAKE_EDIT_SECONDS"]) * len(body.items)
            while (left := ends - time.monotonic()) > 0:
                if cancelled():
                    raise Cancelled("the caller has gone")
                time.sleep(min(left, STEP_SECONDS))
            told = asked(body)
            hungry = Path(os.environ["FAKE_HUNGRY"])
            if not hungry.exists():
                return told
            return refusing(told, too_large(body.items, hungry.read_text(encoding="utf-8")), NO_ROOM)

        return answer


def too_large(items: list[Any], hungry: str) -> list[bool]:
    """Which items do not fit: those that ``hungry`` names by image and edited caption.

    As the real editor finds out: it tries smaller batches until one item is alone. The limit is this
    process's own, and what does not fit is allocated.
    """
    from counterpose_services.batching.batch_size import BatchSizer

    image, caption = hungry.split(maxsplit=1)

    def work(batch: Sequence[int]) -> None:
        for index in batch:
            if (items[index].image, getattr(items[index], "edited_caption", "")) == (image, caption):
                with address_space_limit():
                    np.ones(TOO_MUCH, dtype=np.uint8)

    refused = BatchSizer(len(items)).run(range(len(items)), work).too_large
    return [index in refused for index in range(len(items))]


@contextmanager
def address_space_limit() -> Iterator[None]:
    """Let this process have little more memory than it has (RLIMIT_AS), until the block ends."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class FakeClassifiersEngine(FakeEngine):
    """The classifiers, whose lists name no model."""

    def is_loaded(self, spec: str, function: str | None) -> bool:
        """Nothing has to be loaded."""
        return True

    def describe(self, body: Any) -> Any:
        """Describe a classifier."""
        return at_once(self._port.describe(body))

    def list_classifiers(self) -> Any:
        """List them all."""
        return at_once(self._port.list_classifiers())


def at_once(answer: Coroutine[Any, Any, Any]) -> Any:
    """The result of a fake's coroutine, which waits for nothing; a loop may be running."""
    try:
        answer.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a fake waits")


def captioner(args: ServiceSettings) -> Application:
    """The captioner's application."""
    return application("captioner", _with_fake(CaptionerDeployment), args)


def perturber(args: ServiceSettings) -> Application:
    """The perturber's application."""
    return application("perturber", _with_fake(PerturberDeployment), args)


def editor(args: ServiceSettings) -> Application:
    """The editor's application."""
    return application("editor", _with_fake(EditorDeployment), args)


def scorer(args: ServiceSettings) -> Application:
    """The scorer's application."""
    return application("scorer", _with_fake(ScorerDeployment), args)


def classifiers(args: ServiceSettings) -> Application:
    """The classifiers' application."""
    return application("classifiers", _with_fake(ClassifiersDeployment), args)


def _with_fake(deployment: Any) -> type:
    kinds: dict[str, type[FakeEngine]] = {"editor": FakeEditorEngine, "classifiers": FakeClassifiersEngine}

    class Served(deployment):  # type: ignore[misc]  # the five are generic over their engines
        @staticmethod
        def load(settings: ServiceSettings) -> FakeEngine:
            return kinds.get(deployment.name, FakeEngine)(deployment.name, settings)

    return Served
