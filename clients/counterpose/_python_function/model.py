"""A model object of the caller's own program as a classifier: a torch module, or any callable.

torch and PIL are used only where the caller hands over an object that needs them.
"""

from __future__ import annotations

import importlib
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from counterpose._python_function.function import DEFAULT_SIZE
from counterpose._python_function.probabilities import (
    SUM_TOLERANCE,
    ServedFunction,
    Unusable,
    blue_first,
    on_cpu,
)
from counterpose_core.contract.preparations import NORMALISED
from counterpose_core.errors import InvalidRequest

OWN = "plain"
"""How a module is fed that has no transform."""
TRIALS = 8
"""Drawn images by which a sigmoid is told: so many logits are hardly ever all between 0 and 1."""


class Classifier:
    """A model in this program, which this program answers for while its client is open.

    Classifier(resnet, classes=["bus", "tram"], transform=weights.transforms())

    Args:
        model: a torch module, or a callable. It takes a batch of images and returns one row per image.
        classes: the class names in the order of its answers; default: the model's ``classes``, else the
            dataset's classes in their order.
        transform: from one PIL image to what the model takes, as in torchvision; its results are stacked.
            Default: the model's ``transform``, else a module takes float32 (n, 3, height, width) from 0 to 1,
            and any other callable uint8 (n, height, width, 3).
        input_size: height and width to which images are resized before ``transform``; default: the model's
            ``input_size``, else 224 by 224.
        logits: whether the model returns logits; default: torch modules do, other callables return
            probabilities.
        name: what reports call it; default: the name of the function, or of the model's class.

    Raises:
        InvalidRequest: the model cannot be called.
    """

    def __init__(
        self,
        model: Callable[[Any], Any],
        *,
        classes: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        input_size: tuple[int, int] | None = None,
        logits: bool | None = None,
        name: str | None = None,
    ) -> None:
        if not callable(model):
            raise InvalidRequest(f"a classifier must be callable, and {type(model).__name__} is not")
        self.model = model
        self.is_module = _is_module(model)
        self.logits = self.is_module if logits is None else logits
        self._declared = logits is not None
        self.transform = getattr(model, "transform", None) if transform is None else transform
        self.classes = getattr(model, "classes", None) if classes is None else classes
        found = getattr(model, "input_size", DEFAULT_SIZE) if input_size is None else input_size
        self.input_size = found
        self.name = name or _name_of(model)

    def __repr__(self) -> str:
        return f"Classifier({self.name!r})"

    def __call__(self, images: Any) -> Any:
        """Return the probabilities (n, classes) of images (n, height, width, 3), uint8.

        Raises:
            Unusable: the answers are no logits, though they should be.
        """
        return self._probabilities(_batch(images, self.transform, self.is_module))

    def fed_otherwise(self) -> dict[str, Callable[[Any], Any]]:
        """Return the model behind other preparations of its images; none behind a transform of its own."""
        if self.transform is not None:
            return {}
        found: dict[str, Callable[[Any], Any]] = {"blue-first": lambda images: self(blue_first(images))}
        if self.is_module:
            for name, (mean, deviation) in NORMALISED.items():
                if name != OWN:
                    found[name] = partial(self._normalised, mean=mean, deviation=deviation)
        return found

    def _normalised(self, images: Any, *, mean: Sequence[float], deviation: Sequence[float]) -> Any:
        batch = _batch(images, None, True)
        shape = (1, 3, 1, 1)
        return self._probabilities(
            (batch - batch.new_tensor(mean).view(shape)) / batch.new_tensor(deviation).view(shape)
        )

    def _probabilities(self, batch: Any) -> Any:
        found = self._answers(batch)
        return _softmax(on_cpu(found)) if self.logits else found

    def _answers(self, batch: Any) -> Any:
        found = _without_gradients(self.model, batch) if self.is_module else self.model(batch)
        # Models of transformers return an object with the logits in it.
        return getattr(found, "logits", found)

    def refuse_lone_scores(self, size: tuple[int, int]) -> None:
        """Refuse a module whose answers for drawn images of ``size`` judge each class alone, as sigmoids do.

        Raises:
            InvalidRequest: they lie between 0 and 1, add up to other numbers than 1, and are not said to be
                logits.
        """
        if self._declared or not self.logits:
            return
        numpy = importlib.import_module("numpy")
        drawn = numpy.random.default_rng(0).integers(0, 256, (TRIALS, *size, 3), dtype=numpy.uint8)
        try:
            found = numpy.asarray(
                on_cpu(self._answers(_batch(drawn, self.transform, self.is_module))), dtype=numpy.float64
            )
        # What the user's code raises for a drawn image is no answer for an image of theirs.
        except (Exception, SystemExit):
            return
        # Logits that are all alike tell nothing, as those of a network that is not trained.
        within = ((found >= 0) & (found <= 1)).all() and numpy.ptp(found) > 0
        if found.ndim == 2 and within and (abs(found.sum(axis=1) - 1.0) > SUM_TOLERANCE).all():
            raise InvalidRequest(
                f"{self.name!r} returned scores between 0 and 1 that do not add up to 1, as those of a "
                "sigmoid, which judge each class alone: return logits, or pass logits=True if these are some"
            )


AnyClassifier = str | Classifier | Callable[[Any], Any]
"""What a run can test: a name, or a model object of this program."""


class ModelObject(ServedFunction):
    """A model object, ready to be served.

    Raises:
        InvalidRequest: the model fails on two grey images.
    """

    def __init__(self, model: Classifier | Callable[[Any], Any]) -> None:
        made = model if isinstance(model, Classifier) else Classifier(model)
        super().__init__(
            made,
            spec=made.name,
            name=made.name,
            size=tuple(made.input_size) if isinstance(made.input_size, list) else made.input_size,
            classes=None if made.classes is None else list(made.classes),
            fed_otherwise=made.fed_otherwise(),
        )
        made.refuse_lone_scores(self.size)
        # New for every run: an object may be trained further under the same name, and services cache what an
        # address returned.
        self.version = secrets.token_hex(6)


def _is_module(model: object) -> bool:
    # A caller who has a module has imported torch.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _name_of(model: object) -> str:
    return str(getattr(model, "__name__", type(model).__name__)).replace("<lambda>", "lambda")


def _batch(images: Any, transform: Callable[[Any], Any] | None, is_module: bool) -> Any:
    if transform is not None:
        from_array = importlib.import_module("PIL.Image").fromarray
        made = [transform(from_array(image)) for image in images]
        # Tensors, or arrays.
        library = "torch" if hasattr(made[0], "detach") else "numpy"
        return importlib.import_module(library).stack(made)
    if not is_module:
        return images
    torch = importlib.import_module("torch")
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255.0


def _without_gradients(module: Any, batch: Any) -> Any:
    """Call a module in evaluation mode, on its own device and in its own precision."""
    torch = importlib.import_module("torch")
    weight = next((each for each in module.parameters() if each.is_floating_point()), None)
    if weight is not None:
        batch = batch.to(weight.device, weight.dtype)
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        with torch.no_grad():
            return module(batch)
    finally:
        # Each as it was: a caller may have frozen some of them.
        for each in training:
            each.training = True


def _softmax(logits: Any) -> Any:
    numpy = importlib.import_module("numpy")
    found = numpy.asarray(logits, dtype=numpy.float64)
    if found.ndim != 2:
        return found
    if found.shape[1] == 1:
        raise Unusable(
            "it returned one logit for each image, and the softmax of one is 1: return two classes"
        )
    sums = abs(found.sum(axis=1) - 1.0)
    if (found >= 0).all() and (sums <= SUM_TOLERANCE).all():
        raise Unusable("it returned probabilities where logits were expected: pass logits=False")
    # NaN and infinite logits stay what they are, and are refused as such.
    with numpy.errstate(invalid="ignore"):
        odds = numpy.exp(found - found.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)
