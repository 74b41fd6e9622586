"""What requests share whose runs generate images of labels and show them to classifiers."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import Distinct, ResponseBody
from counterpose_core.contract.classifiers import ClassifiersUnderTest
from counterpose_core.contract.dataset_interfaces import ClassName
from counterpose_core.contract.editor import (
    GenerationPreset,
    GuidanceOverride,
    SchedulerOverride,
    StepsOverride,
)
from counterpose_core.contract.failure_criteria import Criterion, TopOne
from counterpose_core.contract.shift_benchmarks import ShiftText
from counterpose_core.types import BlobRef, ClassifierSpec, Seed


class LabelImagesCreate(ClassifiersUnderTest):
    """Which classifiers answer, what counts as a failure, and how images are generated."""

    classifiers: Distinct[list[ClassifierSpec]] = Field(min_length=1, max_length=128)
    """The classifiers to test; all see the same images."""
    classes: Distinct[list[ClassName] | None] = Field(default=None, min_length=2, max_length=10_000)
    """Classes among which the classifiers choose, or null for those that all of them have."""
    parents: dict[ClassName, ClassName] = Field(default={}, max_length=10_000)
    """The parent of a class, such as `insect` for `fly`: the prompt of a label alone names it, and the
    criterion `no-relative` compares it. Where all classes are ImageNet-1k's, those that are not given are
    WordNet's; any other class without one is its own."""
    criterion: Criterion = Field(
        # Not a plain default: generators of clients refuse one for a union of objects.
        default_factory=TopOne
    )
    """When an answer counts as a failure, `top-1` by default; stored with every rate."""
    prompt: ShiftText | None = None
    """Prompt of a label alone with the slot `<class>`, and `<parent>` where it names the parent; null for the
    suite's."""
    steps: StepsOverride = None
    guidance: GuidanceOverride = None
    scheduler: SchedulerOverride = None
    seed: Seed
    """Seed of every random draw."""


class LabelImagesConfig(ResponseBody):
    """How images are generated and judged, fixed when a run is created."""

    suite: str
    """Name of the model suite."""
    generation: GenerationPreset
    """How images are generated."""
    models: dict[str, str]
    """Name of each service's model."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    classes: list[str]
    """The classes among which the classifiers choose."""
    parents: dict[str, str] = {}
    """What the criterion `no-relative` compares, by class; given or WordNet's."""
    examples: dict[str, BlobRef]
    """SHA-256 of one image of each label: items that are made from no image have to name one."""
    clip: str
    """The CLIP that says whether an image shows its label."""
    objectionable: float | None = None
    """CLIP cosine from which a generated image is dropped as objectionable, or null where nothing is
    checked."""
    policy_words: list[str] = []
    """Words and phrases that the operator's content policy refuses in prompts."""
    notes: list[str] = []
    """What the run cannot show, however it comes out."""
