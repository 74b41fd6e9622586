"""Bodies of the classifiers: the models under test, each seen as a function from image to probabilities."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from counterpose_core.contract.base import (
    MAX_BATCH,
    ClientBody,
    CostedBatchResponse,
    ListBody,
    RequestBody,
    ResponseBody,
    require_distinct,
)
from counterpose_core.contract.recipes import ImageRef, PixelDigest
from counterpose_core.contract.tokens import ClassName
from counterpose_core.text_form import TextForm
from counterpose_core.types import ClassifierSpec, FunctionAddress, FunctionSpec, Name

FUNCTION = FunctionAddress | None
"""The address of the classifier, where it is a function of the caller's program."""


def _is_none(address: str | None) -> bool:
    # A call that names no function has the same idempotency key as before there were any.
    return address is None


class FunctionsOfCaller(ClientBody):
    """The classifiers that the caller's own program serves."""

    functions: dict[Name, FunctionAddress] = Field(
        default={},
        max_length=128,
        # An address holds a secret.
        repr=False,
        # A run is stored without them: its items have the same keys as without this field.
        exclude_if=lambda functions: not functions,
    )
    """Address of each of the classifiers that is a function of the caller's own program, by its name. It is
    kept apart from the run, and no answer repeats it."""


def _is_empty(label_map: dict[str, list[str]]) -> bool:
    # A run or call without one has the same keys as before there were any.
    return not label_map


class MappedClassifiers(FunctionsOfCaller):
    """Classifiers whose own classes may be called otherwise than the dataset's."""

    label_map: dict[ClassName, list[ClassName]] = Field(default={}, max_length=10_000, exclude_if=_is_empty)
    """For a class of the dataset, those of a classifier's classes whose probabilities are summed, such as
    `{"boat": ["speedboat", "canoe"]}`. It precedes the services' own label map. A classifier that has none of
    them, but one of the dataset's name, is asked for that one."""

    @field_validator("label_map")
    @classmethod
    def _names_head_classes(cls, label_map: dict[str, list[str]]) -> dict[str, list[str]]:
        for name, named in label_map.items():
            if not named:
                raise ValueError(f"the label map names no class of a classifier for {name!r}")
            require_distinct(named)
        return label_map


class ClassifiersUnderTest(MappedClassifiers):
    """The classifiers of a run, some of which the caller's own program may serve."""

    classifiers: list[ClassifierSpec]
    """The classifiers to test."""

    @model_validator(mode="after")
    def _each_function_is_tested(self) -> Self:
        if unknown := sorted(self.functions.keys() - set(self.classifiers)):
            raise ValueError(f"the function {unknown[0]!r} is none of the classifiers")
        return self


class FunctionsAsWritten(ClassifiersUnderTest):
    """The classifiers of a run whose report repeats the command that made it."""

    function_specs: dict[Name, FunctionSpec | None] = Field(
        default={},
        max_length=64,
        # A run of other classifiers is stored as it was without this field.
        exclude_if=lambda specs: not specs,
    )
    """What the caller wrote for each of the `functions`, such as `py:module:function`, or null for an object
    of a program, which no command line takes; reports repeat the command by it."""

    @model_validator(mode="after")
    def _each_spec_is_of_a_classifier(self) -> Self:
        if unknown := sorted(self.function_specs.keys() - set(self.classifiers)):
            raise ValueError(f"the function {unknown[0]!r} is none of the classifiers")
        return self


class ClassifyRequest(RequestBody):
    """``POST /v1/classify``: images to predict the class of."""

    classifier: ClassifierSpec
    """The classifier to run."""
    images: list[ImageRef] = Field(min_length=1, max_length=MAX_BATCH)
    """SHA-256 of each image to classify, or a recipe by which it is made of a stored one:
    `source/operation/level/seed/size/mask/other`, the last two of them digests or `-`."""
    classes: list[str] = Field(min_length=1, max_length=10_000)
    """Class names to predict over; probabilities come back in this order."""
    function: FUNCTION = Field(default=None, repr=False, exclude_if=_is_none)
    """Address of the classifier, where it is a function of the program that asked for the run; null for any
    other."""
    label_map: dict[str, list[str]] = Field(default={}, exclude_if=_is_empty)
    """For a requested class, the classes of the head whose probabilities it sums, instead of the one that has
    its name; it precedes the service's own label map."""
    prepared: (
        Annotated[
            str,
            Field(pattern=r"^[a-z][a-z-]{0,30}$"),
            TextForm("must be one of the preparations of the classifier's description, such as blue-first"),
        ]
        | None
    ) = Field(default=None, exclude_if=_is_none)
    """Another preparation of its images, by a name of the classifier's description, or null."""
    features: bool = False
    """Whether to return also the features that the classifier's head reads."""

    @property
    def address(self) -> str | None:
        """The address of the function, with the preparation that is asked for; None where there is none."""
        if self.function is None or self.prepared is None:
            return self.function
        return f"{self.function}-{self.prepared}"


class Prediction(ResponseBody):
    """What a classifier predicts for one image."""

    probabilities: list[float]
    """Probability of each requested class, in [0, 1]. They sum to the probability that the head assigns to
    these classes."""
    top: list[int]
    """Indices of the five most probable classes, best first."""
    features: list[float] | None = None
    """Features that the classifier's head reads, or null if they were not requested or there are none."""
    pixels: PixelDigest | None = Field(default=None, exclude_if=_is_none)
    """SHA-256 of the pixels that the classifier made of a recipe, or null where it made none or does not
    say."""


class ClassifyResponse(CostedBatchResponse[Prediction]):
    """Answer to `ClassifyRequest`."""


class DescribeRequest(RequestBody):
    """``POST /v1/describe``: ask for a `ClassifierDescription` of any classifier, listed or not."""

    classifier: ClassifierSpec
    """The classifier to describe."""
    function: FUNCTION = Field(default=None, repr=False, exclude_if=_is_none)
    """Its address, as in `ClassifyRequest`."""


ClassifierTrait = Literal["architecture", "parameters", "resolution", "training"]
"""The fields of a `ClassifierDescription` that classifiers are grouped by."""


class ClassifierDescription(ResponseBody):
    """A classifier that can be tested, described from its files without loading the weights."""

    name: str
    """Short name of the classifier."""
    spec: str
    """What to pass as `classifier`: a name of the suite or a prefixed name such as `timm:resnet50`."""
    architecture: str = ""
    """Architecture, such as `resnet50`; empty if unknown."""
    classes: list[str] | None = None
    """Class names in the order of the classifier's outputs, or null if unknown."""
    description: str = ""
    """What the classifier is, in one sentence; empty if unknown."""
    parameters: int | None = None
    """Number of parameters, or null if unknown."""
    resolution: int | None = None
    """Shorter side of the input image in pixels, or null if unknown."""
    preparations: dict[str, str] = {}
    """Other ways to prepare its images that can be tried, in words, by name; none where it prepares them
    itself."""
    training: str = ""
    """Training data and recipe as named by timm's tag of the weights, such as `a1_in1k`; empty if unknown."""

    def trait(self, name: ClassifierTrait) -> str | int | None:
        """Return the value of a trait, or None if it is unknown."""
        found: str | int | None = getattr(self, name)
        return found or None


class ClassifierList(ListBody[ClassifierDescription]):
    """``GET /v1/classifiers``: the classifiers that can be tested."""

    classifiers: list[ClassifierDescription]
    """The classifiers that the suite lists."""

    @property
    def _entries(self) -> list[ClassifierDescription]:
        return self.classifiers
