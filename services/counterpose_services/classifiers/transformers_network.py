"""An image classifier that transformers saved: its own configuration, safetensors and image processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from torch import Tensor
from transformers import AutoModelForImageClassification

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.errors import BadBackendOutput, ClassMapMismatch, ModelFormatRefused
from counterpose_core.failure import in_a_line
from counterpose_core.text.imagenet_hierarchy import class_key, class_names
from counterpose_services.classifiers.class_map import NO_LABEL_MAP, HeadClasses, LabelMap, require_several
from counterpose_services.classifiers.classifier import TRIAL_IMAGE, OverClasses
from counterpose_services.classifiers.preparations import PreparedForward, alternatives
from counterpose_services.classifiers.stored_traits import short_text, stored_parameters
from counterpose_services.classifiers.timm_folder import read_configuration
from counterpose_services.classifiers.timm_zoo import imagenet_classes
from counterpose_services.models.cached_forward import Arrays, PassResult
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.image_processors import Preparation, load_image_processor
from counterpose_services.models.model_folder import folder_revision, weight_files

PROCESSOR = "preprocessor_config.json"
_NOT_ONE_CLASS = ("multi_label_classification", "regression")


class TransformersClassifier:
    """Predictions of a network, cached by image and by the digest of all its files.

    Raises:
        ModelFormatRefused: transformers has no image classifier of this configuration, or the weights or the
            processor do not fit it. Code of the folder is never run.
        ClassMapMismatch: the configuration does not name each class.
    """

    def __init__(
        self, folder: Path, spec: str, *, label_map: LabelMap, store: BlobStore, batch: int, device: str
    ) -> None:
        self._head, self._label_map = head_classes(read_configuration(folder), spec), label_map
        self._model, prepared = _loaded(folder, spec)
        self._model.to(torch.device(device))
        self.identity = ModelIdentity(id=spec, revision=folder_revision(folder))
        self.size_bytes = sum(one.numel() * one.element_size() for one in self._model.state_dict().values())
        self._try_out(prepared)
        self._pass = PreparedForward(
            store,
            prepare=prepared,
            forward=self._forward,
            inputs={"model": self.identity.revision},
            batch=batch,
        )

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Select the head's rows of these classes."""
        selection = self._head.selection(classes, {**self._label_map, **label_map})
        return lambda arrays: selection(arrays["probabilities"])

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return ``probabilities`` over the whole head for each image."""
        return self._pass(images, prepared)

    def _try_out(self, prepared: Preparation) -> None:
        try:
            self._forward([prepared(TRIAL_IMAGE)])
        except torch.OutOfMemoryError:
            raise
        # Whatever a network does with pixels that are not its own.
        except Exception as error:
            raise ModelFormatRefused(
                f"{self.identity.id!r} fails on a grey image as its processor prepares it: {in_a_line(error)}"
            ) from error

    @torch.inference_mode()
    def _forward(self, images: list[Tensor]) -> list[Arrays]:
        logits = self._model(pixel_values=torch.stack(images).to(self._model.device)).logits
        if logits.shape != (len(images), len(self._head)):
            raise BadBackendOutput(
                f"{self.identity.id!r} returned the shape {tuple(logits.shape)} for {len(self._head)} classes"
            )
        return [{"probabilities": row.copy()} for row in logits.float().softmax(-1).cpu().numpy()]


def _loaded(folder: Path, spec: str) -> tuple[Any, Preparation]:
    try:
        prepared = load_image_processor(folder)
        model = load_fitting(
            AutoModelForImageClassification, folder, dtype=torch.float32, trust_remote_code=False
        )
    except ModelFormatRefused as error:
        if "auto_map" in read_configuration(folder):
            raise ModelFormatRefused(
                f"{spec!r} needs code of its own repository (auto_map), which is never run; choose a network "
                "that transformers has"
            ) from error
        raise ModelFormatRefused(
            f"transformers cannot load {spec!r} as an image classifier with its processor: {error.detail}"
        ) from error
    return model.eval(), prepared


def head_classes(config: Mapping[str, Any], spec: str) -> HeadClasses:
    """Return the classes of a head by the configuration's ``id2label``; those of ImageNet-1k by all names.

    Raises:
        ClassMapMismatch: it does not name each row from 0 on.
        ModelFormatRefused: the head has one output, or scores that judge each class alone.
    """
    given = config.get("id2label")
    found = [given.get(str(row)) for row in range(len(given))] if isinstance(given, dict) else []
    labels = [label for label in found if isinstance(label, str) and label.strip()]
    if not labels or len(labels) < len(found):
        raise ClassMapMismatch(f"'id2label' of {spec!r} does not name every class from 0 on")
    require_several(len(labels), spec)
    if (kind := config.get("problem_type")) in _NOT_ONE_CLASS:
        raise ModelFormatRefused(
            f"'problem_type' of {spec!r} is {kind!r}: its scores judge each class alone, and one class of "
            "several is asked for; choose a network of 'single_label_classification'"
        )
    # Its own list calls two classes "crane" and two "maillot". TensorFlow's heads begin with a background.
    known = list(class_names())
    before = len(labels) - len(known)
    if before in (0, 1):
        ends = [class_key(label.split(",")[0]) for label in (labels[before], labels[-1])]
        if ends == [known[0], known[-1]]:
            theirs = imagenet_classes()
            return HeadClasses((*((label,) for label in labels[:before]), *theirs.names), own=theirs.own)
    return HeadClasses(tuple((label, *label.split(", ")) for label in labels))


def describe_transformers(folder: Path, spec: str) -> ClassifierDescription:
    """Describe a network by its configuration and the headers of its weights."""
    config = read_configuration(folder)
    architectures, files = config.get("architectures"), weight_files(folder)
    named = config.get("model_type")
    if isinstance(architectures, list) and architectures:
        named = architectures[0]
    return ClassifierDescription(
        name=spec,
        spec=spec,
        architecture=short_text({"named": named}, "named"),
        parameters=stored_parameters(*files) if len(files) == 1 else None,
        classes=head_classes(config, spec).own_names,
        preparations=_alternatives(folder),
    )


def _alternatives(folder: Path) -> dict[str, str]:
    try:
        config = read_configuration(folder, PROCESSOR)
    except ModelFormatRefused:
        # Loading says what is wrong with it.
        return {}
    if config.get("do_normalize") is False:
        return alternatives((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    return alternatives(config.get("image_mean"), config.get("image_std"))
