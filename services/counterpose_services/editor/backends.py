"""The editor's backends: each loaded by its name, and chosen for a call by the preset's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor import (
    EditRequest,
    EditResponse,
    GenerateRequest,
    GenerateResponse,
    ReconstructRequest,
    ReconstructResponse,
)
from counterpose_core.contract.editor_backends import Ability, Capabilities, EditorBackend
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.tokens import LearnTokensRequest, LearnTokensResponse
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.edit_backend import Cancelled, EditBackend
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.editor.safety import SafetyChecker
from counterpose_services.openai_api.connect import listed_server
from counterpose_services.openai_api.terms import image_terms
from counterpose_services.settings import ServiceSettings

CALIBRATIONS = "calibration"
"""The folder of the state folder that keeps what a device is fastest with."""

Load = Callable[[EditorSuite, ServiceSettings, BlobStore], EditBackend]


def _prompt_to_prompt(suite: EditorSuite, settings: ServiceSettings, store: BlobStore) -> EditBackend:
    own = settings.of("editor")
    engine = EditorEngine.load(
        suite,
        settings.suite_root,
        store,
        device=own.device,
        dtype=own.dtype,
        safety_checker=settings.safety_checker,
    )
    if own.compile:
        engine.compile()
    if own.on_gpu:
        engine.calibrate(settings.state_dir / CALIBRATIONS)
    return engine


def _images_api(suite: EditorSuite, settings: ServiceSettings, store: BlobStore) -> EditBackend:
    folder = settings.safety_checker
    safety = None if folder is None else SafetyChecker(folder, device=settings.of("editor").device)
    # A suite with such a preset has the address.
    server = listed_server(suite.server or "", image_terms(settings))
    return ImagesApi(server, suite, store, judge=None if safety is None else safety.judge)


LOADERS: Mapping[EditorBackend, Load] = MappingProxyType(
    {"prompt-to-prompt": _prompt_to_prompt, "images-api": _images_api}
)
"""How each backend is loaded."""


class Backends:
    """The backends of a suite's presets behind one editor."""

    def __init__(self, backends: Mapping[EditorBackend, EditBackend]) -> None:
        self._backends = backends

    @classmethod
    def load(cls, suite: EditorSuite, settings: ServiceSettings, store: BlobStore) -> Backends:
        """Load the backend of each preset, that of the default one first."""
        named = [suite.presets[suite.default_preset], *suite.presets.values()]
        kinds = dict.fromkeys(preset.backend for preset in named)
        return cls({kind: LOADERS[kind](suite, settings, store) for kind in kinds})

    @property
    def identity(self) -> ModelIdentity:
        """The model of the default preset."""
        return next(iter(self._backends.values())).identity

    @property
    def capabilities(self) -> Capabilities:
        """What some backend can do."""
        return Capabilities.joined(backend.capabilities for backend in self._backends.values())

    def rows(self) -> tuple[int, int]:
        """Return how many rows the networks' calls had so far, and how many they could have had."""
        rows = [backend.rows() for backend in self._backends.values()]
        return sum(used for used, _ in rows), sum(offered for _, offered in rows)

    def reconstruct(self, request: ReconstructRequest, *, cancelled: Cancelled) -> ReconstructResponse:
        """Return each image with nothing changed, by the preset's backend."""
        return self._of(request.preset).reconstruct(request, cancelled=cancelled)

    def edit(self, request: EditRequest, *, cancelled: Cancelled) -> EditResponse:
        """Edit each image, by the preset's backend."""
        return self._of(request.preset).edit(request, cancelled=cancelled)

    def generate(self, request: GenerateRequest, *, cancelled: Cancelled) -> GenerateResponse:
        """Generate an image for each prompt, by the first backend that can."""
        return self._able("draw").generate(request, cancelled=cancelled)

    def learn_tokens(self, request: LearnTokensRequest, *, cancelled: Cancelled) -> LearnTokensResponse:
        """Learn a word for each class, by the first backend that can."""
        return self._able("tokens").learn_tokens(request, cancelled=cancelled)

    def _of(self, preset: EditorPreset) -> EditBackend:
        if preset.backend not in self._backends:
            raise InvalidRequest(
                f"the suite's editor has no preset of the backend {preset.backend!r}; start the services "
                "with the suite that the run was planned for"
            )
        return self._backends[preset.backend]

    def _able(self, ability: Ability) -> EditBackend:
        backends = list(self._backends.values())
        # Where none can, the first says so.
        return next((each for each in backends if each.capabilities.can(ability)), backends[0])
