"""From a classifier's spec to the classifier: the suite's, the zoo's, a user's folder, CLIP, a remote one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import httpx

from faultline_core.blobs import BlobStore
from faultline_core.contract.classifiers import ClassifierDescription
from faultline_core.errors import ModelFormatRefused, UnknownModel
from faultline_core.suite import ClassifiersSuite
from faultline_core.types import NEVER_SERVED
from faultline_services.classifiers.class_map import read_label_map
from faultline_services.classifiers.classifier import Classifier
from faultline_services.classifiers.descriptions import describe_clip, describe_folder, describe_remote
from faultline_services.classifiers.onnx_file import ONNX_FILE
from faultline_services.classifiers.onnx_network import OnnxClassifier
from faultline_services.classifiers.open_inference import OpenInference
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.remote import RemoteClassifier, require_allowed
from faultline_services.classifiers.timm_folder import WEIGHTS, load_folder
from faultline_services.classifiers.timm_network import Network, TimmClassifier
from faultline_services.classifiers.timm_zoo import Fetch, describe_zoo, hub_weights, load_zoo
from faultline_services.classifiers.zero_shot import ZeroShotClassifier
from faultline_services.model_cache import Loaded
from faultline_services.model_folder import model_folder, stays_inside
from faultline_services.weights import PUBLISHED_PREFIX, clip_folder

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
        scheme, name = self._parted(spec)
        return self._schemes[scheme](name)

    def describe(self) -> list[ClassifierDescription]:
        """Name the classifiers that lie on this machine: the suite's and the user's."""
        return [*self._suite_descriptions(), *self._local_descriptions()]

    def describe_one(self, spec: str) -> ClassifierDescription:
        """Tell what is known of the classifier ``spec`` names, without its weights being loaded or fetched.

        Raises:
            UnknownModel: nothing answers to it, or it is not allowed here.
            BackendError: it is a remote one, and does not answer.
        """
        scheme, name = self._parted(spec)
        if scheme == "timm":
            self._require_zoo(name)
            return describe_zoo(name)
        if scheme == "clip":
            return describe_clip(clip_folder(self._root, f"{PUBLISHED_PREFIX}{name}"), spec)
        if scheme == "oip":
            require_allowed(name, self._options.oip_hosts)
            return describe_remote(spec, OpenInference(name, self._remotes))
        found = next((one for one in self.describe() if one.spec == spec), None)
        if found is None:
            raise UnknownModel(f"no classifier {spec!r} that could be described lies on this machine")
        return found

    def _parted(self, spec: str) -> tuple[str, str]:
        scheme, _, name = spec.partition(":") if ":" in spec else ("", "", spec)
        if scheme == "py":
            raise UnknownModel(f"{spec!r}: {NEVER_SERVED}")
        if scheme not in self._schemes:
            raise UnknownModel(f"no classifier is named {spec!r}")
        return scheme, name

    def _of_suite(self, name: str) -> Loaded[Classifier]:
        if name in self._suite.zero_shot:
            return self._of_clip(name)
        if name not in self._suite.models:
            known = ", ".join([*self._suite.models, *self._suite.zero_shot])
            raise UnknownModel(f"the suite has no classifier {name!r}; it has {known or 'none'}")
        return self._timm(load_folder(model_folder(self._root, self._suite.models[name]), name))

    def _of_zoo(self, name: str) -> Loaded[Classifier]:
        self._require_zoo(name)
        return self._timm(load_zoo(name, self._fetch))

    def _require_zoo(self, name: str) -> None:
        if not self._suite.allow_timm:
            raise UnknownModel(f"this suite does not allow 'timm:{name}'")

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
            if (described := describe_folder(self._root / folder, name, name)) is not None:
                yield described
        for name, folder in self._suite.zero_shot.items():
            if (self._root / folder).is_dir():
                yield describe_clip(self._root / folder, name)

    def _local_descriptions(self) -> Iterator[ClassifierDescription]:
        folders = self._options.models_folder
        if folders is None or not folders.is_dir():
            return
        for folder in sorted(folders.iterdir()):
            described = describe_folder(folder, folder.name, f"local:{folder.name}")
            if described is not None and stays_inside(folder, folders):
                yield described
