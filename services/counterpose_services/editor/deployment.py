"""The editor as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract import tokens
from counterpose_core.contract.base import ServiceHealth
from counterpose_core.suite import load_suite
from counterpose_services.editor.work import EditorCall, one_edit, planned_evaluations
from counterpose_services.serving.engine_protocols import Editor
from counterpose_services.serving.engine_service import EngineService, application
from counterpose_services.settings import ServiceSettings

CALLS = 8
"""Calls under way at once: their steps share the network's calls, and one prepares while others denoise."""

WINDOW_S = 60.0
"""Seconds that the occupancy looks back; it is asked for each half minute."""


class RecentOccupancy:
    """The share of offered rows that were used since a look of about a minute ago.

    ``rows`` returns how many rows the network's calls had so far and how many they could have had, ``clock``
    monotonic seconds.
    """

    def __init__(self, rows: Callable[[], tuple[int, int]], clock: Callable[[], float]) -> None:
        self._rows, self._clock = rows, clock
        self._looks = deque([(clock(), rows())])

    def look(self) -> float | None:
        """Return the share in [0, 1], or None if there was no call."""
        now, rows = self._clock(), self._rows()
        # One look that is older than the window stays, so that the share always has two ends.
        while len(self._looks) > 1 and self._looks[1][0] <= now - WINDOW_S:
            self._looks.popleft()
        used, offered = (last - first for last, first in zip(rows, self._looks[0][1], strict=True))
        self._looks.append((now, rows))
        return used / offered if offered > 0 else None


class EditorDeployment(EngineService[Editor]):
    """Serves the backends of an editor, which batch over images, edits and sweep values by themselves."""

    name = "editor"
    calls = CALLS

    def __init__(self, settings: ServiceSettings, engine: Editor | None = None) -> None:
        super().__init__(settings, engine)
        self._occupancy = RecentOccupancy(self.engine.rows, time.monotonic)

    def health(self) -> ServiceHealth:
        """Return the health, what the engine can do, and how full the network's calls were lately."""
        own = {"capabilities": self.engine.capabilities, "occupancy": self._occupancy.look()}
        return super().health().model_copy(update=own)

    @staticmethod
    def load(settings: ServiceSettings) -> Editor:
        """Load the backends of the suite's presets."""
        from counterpose_services.editor.backends import Backends

        return Backends.load(
            load_suite(settings.suite, settings).editor, settings, BlobStore(settings.store_url)
        )

    @classmethod
    def calls_at_once(cls, settings: ServiceSettings) -> int:
        """Return how many calls are under way at once: their steps are packed into shared calls."""
        return CALLS

    def work(self, body: EditorCall) -> float:
        """Return about how many network evaluations a call takes."""
        return planned_evaluations(body)

    @property
    def full_batch(self) -> float:
        """The evaluations of a full batch of edits with the suite's default preset."""
        editor = self._suite.editor
        return editor.batch * one_edit(editor.presets[editor.default_preset])

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.editor`` and ``.tokens``."""
        return {
            "/v1/reconstruct": self.reconstruct,
            "/v1/edit": self.edit,
            "/v1/generate": self.generate,
            "/v1/learn-tokens": self.learn_tokens,
        }

    async def reconstruct(self, body: contract.ReconstructRequest) -> contract.ReconstructResponse:
        """Invert each image and reconstruct it."""
        return await self.thread.run_cancellable(self.engine.reconstruct, body)

    async def edit(self, body: contract.EditRequest) -> contract.EditResponse:
        """Edit each image at every value of the sweep."""
        return await self.thread.run_cancellable(self.engine.edit, body)

    async def generate(self, body: contract.GenerateRequest) -> contract.GenerateResponse:
        """Generate one image for each prompt and seed."""
        return await self.thread.run_cancellable(self.engine.generate, body)

    async def learn_tokens(self, body: tokens.LearnTokensRequest) -> tokens.LearnTokensResponse:
        """Train the token of each class for one more link."""
        return await self.thread.run_cancellable(self.engine.learn_tokens, body)


def build(args: ServiceSettings) -> Application:
    """Return the editor's application: ``serve run counterpose_services.editor.deployment:build``."""
    return application("editor", EditorDeployment, args)
