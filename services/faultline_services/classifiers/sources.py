"""From a classifier's spec to the classifier: the suite's, the zoo's, a user's folder, CLIP, a remote one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import httpx

from faultline_core.blobs import BlobStore
from faultline_core.contract.classifiers import ClassifierDescription
from faultline_core.errors import FaultlineError, ModelFormatRefused, UnknownModel
from faultline_core.suite import ClassifiersSuite
from faultline_core.types import NEVER_SERVED
from faultline_services.classifiers.class_map import read_class_map, read_label_map
from faultline_services.classifiers.classifier import Classifier
from faultline_services.classifiers.onnx_file import ONNX_FILE
from faultline_services.classifiers.onnx_network import OnnxClassifier
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.remote import RemoteClassifier, require_allowed
from faultline_services.classifiers.stored_traits import (
    clip_resolution,
    described_resolution,
    described_training,
    stored_parameters,
)
from faultline_services.classifiers.timm_folder import CLASS_MAP, WEIGHTS, load_folder, read_configuration
from faultline_services.classifiers.timm_network import Network, TimmClassifier
from faultline_services.classifiers.timm_zoo import Fetch, hub_weights, load_zoo
from faultline_services.classifiers.zero_shot import ZeroShotClassifier
from faultline_services.model_cache import Loaded
from faultline_services.model_folder import model_folder, stays_inside
from faultline_services.weights import CLIP_CONFIGURATION, CLIP_WEIGHTS, PUBLISHED_PREFIX, clip_folder

REMOTE_TIMEOUT_S = 30.0


class Sources:
    """Loads classifiers by spec; a name is looked up, never taken for a path."""

    def __init__(
        self,
        suite: ClassifiersSuite,
        root: Path,
        store: BlobStore,
        options: ClassifierOptions,
        *,
        fetch: Fetch = hub_weights,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._suite, self._root, self._store, self._options = suite, root, store, options
        self._fetch, self._transport = fetch, transport
        self._label_map = read_label_map(options.label_map)
        self._schemes: dict[str, Callable[[str], Loaded[Classifier]]] = {
            "": self._of_suite,
            "timm": self._of_zoo,
            "local": self._of_folder,
            "clip": self._of_clip,
            "oip": self._of_remote,
        }

    def load(self, spec: str) -> Loaded[Classifier]:
        """Load the classifier ``spec`` names.

        Raises:
            UnknownModel: nothing answers to it, or it is not allowed here.
            ModelFormatRefused: its weights are neither safetensors that fit nor an ONNX file that can be run.
            ClassMapMismatch: its class map is missing or broken.
        """
        scheme, _, name = spec.partition(":") if ":" in spec else ("", "", spec)
        if scheme == "py":
            raise UnknownModel(f"{spec!r}: {NEVER_SERVED}")
        if scheme not in self._schemes:
            raise UnknownModel(f"no classifier is named {spec!r}")
        return self._schemes[scheme](name)

    def describe(self) -> list[ClassifierDescription]:
        """Name the classifiers that lie on this machine: the suite's and the user's."""
        return [*self._suite_descriptions(), *self._local_descriptions()]

    def _of_suite(self, name: str) -> Loaded[Classifier]:
        if name in self._suite.zero_shot:
            return self._of_clip(name)
        if name not in self._suite.models:
            known = ", ".join([*self._suite.models, *self._suite.zero_shot])
            raise UnknownModel(f"the suite has no classifier {name!r}; it has {known or 'none'}")
        return self._timm(load_folder(model_folder(self._root, self._suite.models[name]), name))

    def _of_zoo(self, name: str) -> Loaded[Classifier]:
        if not self._suite.allow_timm:
            raise UnknownModel(f"this suite does not allow 'timm:{name}'")
        return self._timm(load_zoo(name, self._fetch))

    def _of_folder(self, name: str) -> Loaded[Classifier]:
        folders = self._options.models_folder
        if folders is None or "/" in name or not (folders / name).is_dir():
            raise UnknownModel(f"no folder of the models folder is named {name!r}")
        folder, spec = model_folder(folders, name), f"local:{name}"
        if not stays_inside(folder, folders):
            raise UnknownModel(f"{spec!r} is or holds a link out of the models folder")
        if not (folder / ONNX_FILE).is_file():
            return self._timm(load_folder(folder, spec))
        if (folder / WEIGHTS).is_file():
            raise ModelFormatRefused(f"{spec!r} has both {ONNX_FILE!r} and {WEIGHTS!r}: keep one")
        return self._onnx(folder, spec)

    def _of_clip(self, name: str) -> Loaded[Classifier]:
        folder = clip_folder(self._root, self._suite.zero_shot.get(name, f"{PUBLISHED_PREFIX}{name}"))
        model = ZeroShotClassifier(
            folder, name, store=self._store, batch=self._suite.batch, device=self._options.device
        )
        return Loaded(model, model.size_bytes)

    def _of_remote(self, url: str) -> Loaded[Classifier]:
        require_allowed(url, self._options.oip_hosts)
        model = RemoteClassifier(
            url, client=self._remotes, label_map=self._label_map, store=self._store, batch=self._suite.batch
        )
        return Loaded(model, model.size_bytes)

    @cached_property
    def _remotes(self) -> httpx.Client:
        # One for all: a connection to a server that is gone is dropped when any other is asked.
        # A proxy named in the environment would see the pictures, and is on nobody's list.
        return httpx.Client(timeout=REMOTE_TIMEOUT_S, trust_env=False, transport=self._transport)

    def _timm(self, network: Network) -> Loaded[Classifier]:
        model = TimmClassifier(
            network,
            label_map=self._label_map,
            store=self._store,
            batch=self._suite.batch,
            device=self._options.device,
        )
        return Loaded(model, model.size_bytes)

    def _onnx(self, folder: Path, spec: str) -> Loaded[Classifier]:
        model = OnnxClassifier(
            folder,
            spec,
            label_map=self._label_map,
            store=self._store,
            batch=self._suite.batch,
            device=self._options.device,
        )
        return Loaded(model, model.size_bytes)

    def _suite_descriptions(self) -> Iterator[ClassifierDescription]:
        for name, folder in self._suite.models.items():
            if (described := _described(self._root / folder, name, name)) is not None:
                yield described
        for name, folder in self._suite.zero_shot.items():
            if (self._root / folder).is_dir():
                yield _clip_described(self._root / folder, name)

    def _local_descriptions(self) -> Iterator[ClassifierDescription]:
        folders = self._options.models_folder
        if folders is None or not folders.is_dir():
            return
        for folder in sorted(folders.iterdir()):
            described = _described(folder, folder.name, f"local:{folder.name}")
            if described is not None and stays_inside(folder, folders):
                yield described


def _clip_described(folder: Path, name: str) -> ClassifierDescription:
    try:
        config = read_configuration(folder, CLIP_CONFIGURATION)
    except ModelFormatRefused:
        config = {}
    return ClassifierDescription(
        name=name,
        spec=name,
        architecture="open_clip",
        parameters=stored_parameters(*(folder / file for file in CLIP_WEIGHTS)),
        resolution=clip_resolution(config),
        description="zero-shot",
    )


def _described(folder: Path, name: str, spec: str) -> ClassifierDescription | None:
    try:
        config, head = read_configuration(folder), read_class_map(folder / CLASS_MAP)
    except FaultlineError:
        # Listing names what can be tested; asking for a broken one says what is wrong with it.
        return None
    is_onnx = (folder / ONNX_FILE).is_file()
    return ClassifierDescription(
        name=name,
        spec=spec,
        architecture="onnx" if is_onnx else str(config.get("architecture", "")),
        parameters=None if is_onnx else stored_parameters(folder / WEIGHTS),
        resolution=described_resolution(config),
        training=described_training(config),
        classes=head.own_names,
    )
