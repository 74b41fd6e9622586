"""Loads classifiers by spec: from the suite, timm, a user's folder, CLIP or a remote server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import httpx

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.errors import BackendError, ModelFormatRefused, UnknownModel
from counterpose_core.suite import ClassifiersSuite, PublishedModel
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import NEVER_SERVED
from counterpose_services.classifiers.class_map import read_label_map
from counterpose_services.classifiers.classifier import Classifier
from counterpose_services.classifiers.descriptions import (
    alternative_preparations,
    describe_clip,
    describe_folder,
    describe_remote,
)
from counterpose_services.classifiers.onnx_file import ONNX_FILE
from counterpose_services.classifiers.onnx_network import OnnxClassifier
from counterpose_services.classifiers.open_inference import FunctionInference, OpenInference, no_function
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.remote import RemoteClassifier, require_allowed
from counterpose_services.classifiers.timm_folder import WEIGHTS, load_folder
from counterpose_services.classifiers.timm_network import Network, TimmClassifier
from counterpose_services.classifiers.timm_zoo import Fetch, describe_zoo, hub_weights, is_in_zoo, load_zoo
from counterpose_services.classifiers.transformers_network import (
    TransformersClassifier,
    describe_transformers,
)
from counterpose_services.classifiers.zero_shot import ZeroShotClassifier
from counterpose_services.models.model_cache import Loaded
from counterpose_services.models.model_folder import model_folder, stays_inside
from counterpose_services.models.weights import PUBLISHED_PREFIX, clip_folder, weights_folder
from counterpose_services.outbound.calls import AnswerLimits, outbound_client

_Sized = TimmClassifier | OnnxClassifier | TransformersClassifier | ZeroShotClassifier | RemoteClassifier


class _Here(TypedDict):
    store: BlobStore
    batch: int
    device: str


class ClassifierRegistry:
    """Loads classifiers by spec; a name is looked up and never used as a path."""

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
        # What every network of this process is loaded with.
        self._here: _Here = {"store": store, "batch": suite.batch, "device": options.device}
        self._schemes: dict[str, Callable[[str], Loaded[Classifier]]] = {
            "": self._of_suite,
            "timm": self._of_zoo,
            "local": self._of_folder,
            "clip": self._of_clip,
            "hf": self._of_transformers,
            "oip": self._of_remote,
        }

    def load(self, spec: str, function: str | None = None) -> Loaded[Classifier]:
        """Load the classifier that ``spec`` names, from the address ``function`` if that is given.

        Raises:
            UnknownModel: there is no such classifier, or it is not allowed here.
            ModelFormatRefused: its weights are neither fitting safetensors nor a usable ONNX file.
            ClassMapMismatch: its class map is missing or broken.
        """
        if function is not None:
            return self._remote(self._function(function, spec), f"function:{spec}")
        scheme, name = self._parted(spec)
        return self._schemes[scheme](name)

    def describe(self) -> list[ClassifierDescription]:
        """Return the classifiers on this machine: those of the suite and of the user."""
        return [*self._suite_descriptions(), *self._local_descriptions()]

    def describe_one(self, spec: str, function: str | None = None) -> ClassifierDescription:
        """Return what is known of the classifier ``spec`` without loading or downloading its weights.

        Raises:
            UnknownModel: there is no such classifier, or it is not allowed here.
            BackendError: the classifier is remote and does not answer.
        """
        if function is not None:
            return describe_remote(spec, self._function(function, spec))
        scheme, name = self._parted(spec)
        if scheme == "timm":
            self._require_zoo(name)
            return describe_zoo(name)
        if scheme == "hf":
            return describe_transformers(self._transformers_folder(name), spec)
        if scheme == "clip":
            return describe_clip(
                clip_folder(self._root, f"{PUBLISHED_PREFIX}{name}", self._suite.published), spec
            )
        if scheme == "oip":
            require_allowed(name, self._options.oip_hosts)
            remote = describe_remote(spec, OpenInference(name, self._remotes, self._limits))
            # Only functions have others, whose address says which.
            return remote.model_copy(update={"preparations": {}})
        found = next((one for one in self.describe() if one.spec == spec), None)
        if found is None:
            raise UnknownModel(f"there is no classifier {spec!r} on this machine to describe")
        if scheme == "local" and self._options.models_folder is not None:
            alternatives = alternative_preparations(self._options.models_folder / name)
            return found.model_copy(update={"preparations": alternatives})
        return found

    def _parted(self, spec: str) -> tuple[str, str]:
        scheme, _, name = spec.partition(":") if ":" in spec else ("", "", spec)
        if scheme == "py":
            raise UnknownModel(f"{spec!r}: {NEVER_SERVED}")
        if scheme not in self._schemes:
            schemes = ", ".join(f"{one}:" for one in self._schemes if one)
            raise UnknownModel(
                f"there is no classifier {spec!r}; use a name of the suite or one of {schemes}"
            )
        return scheme, name

    def _of_suite(self, name: str) -> Loaded[Classifier]:
        if name in self._suite.zero_shot:
            return self._of_clip(name)
        if name not in self._suite.models:
            known = ", ".join([*self._suite.models, *self._suite.zero_shot])
            meant = f" (did you mean 'timm:{name}'?)" if self._suite.allow_timm and is_in_zoo(name) else ""
            meant = meant or did_you_mean(name, [*self._suite.models, *self._suite.zero_shot])
            raise UnknownModel(f"the suite has no classifier {name!r}{meant}; it has {known or 'none'}")
        return self._timm(load_folder(model_folder(self._root, self._suite.models[name]), name))

    def _of_zoo(self, name: str) -> Loaded[Classifier]:
        self._require_zoo(name)
        return self._timm(load_zoo(name, self._fetch))

    def _require_zoo(self, name: str) -> None:
        if not self._suite.allow_timm:
            raise UnknownModel(f"the suite does not allow 'timm:{name}'; use one of its own classifiers")

    def _of_folder(self, name: str) -> Loaded[Classifier]:
        folders = self._options.models_folder
        if folders is None or "/" in name or not (folders / name).is_dir():
            listed = folders.iterdir() if folders is not None and folders.is_dir() else ()
            near = did_you_mean(name, [each.name for each in listed if each.is_dir()])
            raise UnknownModel(f"the models folder has no folder {name!r}{near}")
        folder, spec = model_folder(folders, name), f"local:{name}"
        if not stays_inside(folder, folders):
            raise UnknownModel(
                f"{spec!r} is or contains a link out of the models folder; copy the files instead"
            )
        if not (folder / ONNX_FILE).is_file():
            return self._timm(load_folder(folder, spec))
        if (folder / WEIGHTS).is_file():
            raise ModelFormatRefused(f"{spec!r} has both {ONNX_FILE!r} and {WEIGHTS!r}; keep one")
        return _loaded(OnnxClassifier(folder, spec, label_map=self._label_map, **self._here))

    def _of_clip(self, name: str) -> Loaded[Classifier]:
        folder = clip_folder(
            self._root, self._suite.zero_shot.get(name, f"{PUBLISHED_PREFIX}{name}"), self._suite.published
        )
        return _loaded(ZeroShotClassifier(folder, name, **self._here))

    def _transformers_folder(self, name: str) -> Path:
        if not self._suite.allow_hf:
            raise UnknownModel(
                f"the suite does not allow 'hf:{name}'; use one of its own classifiers, or a suite with "
                "allow_hf = true"
            )
        # Found and never downloaded, as the suite's own models are.
        return weights_folder(
            self._root, name, {name: PublishedModel(repository=name)} if "/" in name else {}
        )

    def _of_transformers(self, name: str) -> Loaded[Classifier]:
        folder = self._transformers_folder(name)
        return _loaded(TransformersClassifier(folder, f"hf:{name}", label_map=self._label_map, **self._here))

    def _of_remote(self, url: str) -> Loaded[Classifier]:
        require_allowed(url, self._options.oip_hosts)
        return self._remote(OpenInference(url, self._remotes, self._limits), f"oip:{url}")

    def _function(self, address: str, spec: str) -> OpenInference:
        try:
            return FunctionInference(address, self._remotes, self._limits, name=spec)
        except BackendError:
            # One answer, whatever the cause: a caller must not learn which ports of this machine are open.
            raise no_function(spec) from None

    def _remote(self, remote: OpenInference, identity: str) -> Loaded[Classifier]:
        return _loaded(
            RemoteClassifier(
                remote, identity, label_map=self._label_map, store=self._store, batch=self._suite.batch
            )
        )

    @cached_property
    def _remotes(self) -> httpx.Client:
        # One client for all: connections to stopped servers are dropped on the next request.
        return outbound_client(self._limits, transport=self._transport)

    @property
    def _limits(self) -> AnswerLimits:
        return AnswerLimits(self._options.oip_seconds, self._options.oip_answer_bytes)

    def _timm(self, network: Network) -> Loaded[Classifier]:
        return _loaded(TimmClassifier(network, label_map=self._label_map, **self._here))

    def _suite_descriptions(self) -> Iterator[ClassifierDescription]:
        for name, folder in self._suite.models.items():
            if (described := describe_folder(self._root / folder, name, name)) is not None:
                yield described
        for name, model in self._suite.zero_shot.items():
            try:
                found = clip_folder(self._root, model, self._suite.published)
            except (UnknownModel, ModelFormatRefused):
                # The list has only what is here; a request for another one says what is missing.
                continue
            yield describe_clip(found, name)

    def _local_descriptions(self) -> Iterator[ClassifierDescription]:
        folders = self._options.models_folder
        if folders is None or not folders.is_dir():
            return
        for folder in sorted(folders.iterdir()):
            described = describe_folder(folder, folder.name, f"local:{folder.name}")
            if described is not None and stays_inside(folder, folders):
                yield described


def _loaded(model: _Sized) -> Loaded[Classifier]:
    return Loaded(model, model.size_bytes)
