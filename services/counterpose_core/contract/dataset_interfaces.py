"""Bodies of ``/v1/dataset-interfaces``: a dataset's classes learned as tokens (ImageNet*)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import (
    MAX_BATCH,
    ClientBody,
    Distinct,
    ModelIdentity,
    ResponseBody,
    told_apart_by,
)
from counterpose_core.contract.editor import (
    GenerationPreset,
    GuidanceOverride,
    SchedulerOverride,
    StepsOverride,
)
from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.runs import Provenance, RequestCounts, RunItem
from counterpose_core.contract.tokens import DroppedImage, TextualInversionPreset
from counterpose_core.types import BlobRef, Cost, Estimate, Name, Seed

CLASS_NAME = "class-name"
"""The value of ``token_init`` with which each class starts from its own name."""

LearningPrompts = Literal["templates", "captions"]
"""The prompts that images are trained with: the preset's templates, or their captions with ``<class>``."""

ClassName = Annotated[str, Field(min_length=1, max_length=200)]


class DatasetInterfaceCreate(ClientBody):
    """``POST /v1/dataset-interfaces``: learn the classes of a dataset as tokens."""

    dataset: Name
    """Name of the dataset."""
    classes: Distinct[list[ClassName] | None] = Field(default=None, min_length=1, max_length=10_000)
    """Classes to learn, or null for all of the dataset."""
    token_init: str = Field(default=CLASS_NAME, min_length=1, max_length=200)
    """Words that every token starts from, such as `pet` (Dataset Interfaces, appendix D); `class-name` starts
    each at its own name."""
    prompts: LearningPrompts | None = None
    """Whether images are trained with the preset's templates or with their own captions; null for the suite's
    choice."""
    vectors: int | None = Field(default=None, ge=1, le=16)
    """Number of vectors of a token, or null for the suite's."""
    steps: int | None = Field(default=None, ge=1, le=20_000)
    """Number of optimisation steps, or null for the suite's."""
    limit: int | None = Field(default=None, ge=1, le=100_000)
    """Maximum number of images of each class to learn from, or null for all."""
    tokens: dict[ClassName, BlobRef] | None = Field(default=None, min_length=1, max_length=10_000)
    """Published tokens to take in place of learning, by class: what `POST /v1/token-files` answered. A class
    may have any of its names in ImageNet-1k. Classes without a token are left out."""
    seed: Seed
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _learned_or_published(self) -> Self:
        learning = {"prompts": self.prompts, "vectors": self.vectors, "steps": self.steps}
        given = [name for name, value in learning.items() if value is not None]
        given += ["token_init"] if self.token_init != CLASS_NAME else []
        if self.tokens is not None and given:
            raise ValueError(
                f"published tokens are not learned: leave out {given[0]!r}, or leave out 'tokens'"
            )
        return self


class DatasetInterfaceConfig(ResponseBody):
    """Everything an interface depends on, fixed when its run is created."""

    request: DatasetInterfaceCreate
    """The request that created the run."""
    suite: str
    """Name of the model suite."""
    preset: TextualInversionPreset
    """Settings of textual inversion."""
    prompts: LearningPrompts
    """Whether images are trained with templates or with their own captions."""
    models: dict[str, str]
    """Name of each service's model."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    dataset_digest: str
    """Digest of the dataset when the run was created."""
    classes: list[str]
    """The classes to learn."""
    images: dict[str, BlobRef]
    """For each class, SHA-256 of the stored JSON array that lists its images."""
    compared: dict[str, list[BlobRef]] = {}
    """Images of many classes, by class; comparing their captions shows which words belong to one class."""
    without_images: list[str] = []
    """Classes that were left out because the dataset has no images of them."""
    published: dict[str, BlobRef] = {}
    """SHA-256 of the file with each class's published token; empty if tokens are learned."""
    without_token: list[str] = []
    """Classes that were left out because no published token is theirs."""
    link_steps: int
    """Number of optimisation steps in one call to the editor."""
    generation: GenerationPreset
    """How images are generated to check a token."""


class TokenCandidate(ResponseBody):
    """A token part of the way to the learned vectors, checked on images generated with it."""

    interpolation_weight: float
    """Fraction of the way from the initialiser to the learned vectors, in [0, 1]."""
    token: BlobRef
    """SHA-256 of the token bundle in the store."""
    resemblance: Estimate
    """CLIP cosine between the images generated with it and the mean of the class's own images; n counts
    images."""


class TokenResult(Provenance):
    """A learned class: its token, its losses, and how well images generated with it resemble the class."""

    token: BlobRef
    """SHA-256 of the token bundle in the store."""
    interpolation_weight: float = 1.0
    """Fraction of the way from the initialiser to the learned vectors at which the token lies, in [0, 1]: the
    smallest of `candidates` whose resemblance is within one standard error of the best."""
    candidates: list[TokenCandidate] = []
    """The tokens that were compared; empty if there was only one."""
    published: bool = False
    """Whether the token was published, and nothing was learned here."""
    initialiser: str
    """Words that the vectors started from."""
    steps: int
    """Number of optimisation steps."""
    losses: list[float]
    """Mean loss of each group of `losses_over` consecutive steps."""
    losses_over: int = 1
    """Number of steps averaged in each entry of `losses`."""
    n_images: int
    """Number of images that the token was learned from."""
    dropped_images: list[DroppedImage] = []
    """Images that could not be read, with the reason."""
    own_words: list[str] = []
    """Words that captions use more for this class than for others; the prompts replace them by the token."""
    token_images: list[BlobRef] = []
    """SHA-256 of the images generated with the token."""
    name_images: list[BlobRef] = []
    """SHA-256 of the images generated with the class's plain name; empty if the generator cannot read the
    name."""
    object_similarity: Estimate | None = None
    """CLIP cosine between the token's images and "a photo of a <class>"; n counts images."""
    name_similarity: Estimate | None = None
    """The same for the plain name's images, or null if there are none."""
    real_similarity: Estimate | None = None
    """The same for the class's own images."""
    state: FindingState | None = Field(default=None, exclude_if=lambda state: state is None)
    """Verdict of the summary: `holds` if the interval of `resemblance` lies above that of `name_resemblance`,
    so that the token's images are shown to look more like the class's own than those by its name; `breaks` if
    below; `cannot-tell` if they overlap. Absent where one of them was not measured, and from items."""
    resemblance: Estimate | None = None
    """CLIP cosine between the token's images and the mean of the class's own images; n counts images."""
    name_resemblance: Estimate | None = None
    """The same for the plain name's images, or null if there are none. It is lower if the generator does not
    associate the name with what the dataset shows."""


class TokenItem(RunItem[TokenResult]):
    """One class of a dataset interface."""


class DatasetInterfaceSummary(ResponseBody, json_schema_extra=told_apart_by("kind")):
    """``GET /v1/runs/{run_id}/summary``: the learned tokens as the run stands."""

    kind: Literal["dataset-interface"] = "dataset-interface"
    """The kind of the run."""
    run_id: str
    """Id of the run, by which benchmarks name the interface."""
    dataset: str
    """Name of the dataset."""
    tokens: dict[str, TokenResult]
    """The finished tokens, by class."""
    missing: dict[str, str]
    """Reason why each of the other classes has no token, by class."""
    counts: RequestCounts
    """Number of classes in each state."""
    cost: Cost
    """Total cost of all tokens."""
    config: DatasetInterfaceConfig
    """Everything the interface depends on."""

    def __str__(self) -> str:
        lines = [_HEADER] if self.tokens else []
        lines += [_line(name, token) for name, token in self.tokens.items()]
        lines += [f"missing {name}: {why}" for name, why in self.missing.items()]
        return "\n".join([*lines, f"cost: {self.cost}"])


_HEADER = f"{'class':20} {'state':11} {'images':>6} {'steps':>6} {'resemblance by token':>28} {'by name':>28}"


def _line(name: str, token: TokenResult) -> str:
    state, by_token, by_name = (
        "-" if figure is None else str(figure)
        for figure in (token.state, token.resemblance, token.name_resemblance)
    )
    return f"{name:20} {state:11} {token.n_images:>6,} {token.steps:>6,} {by_token:>28} {by_name:>28}"


class ImagesCreate(ClientBody):
    """``POST /v1/runs/{run_id}/generate``: images of a class, as it is or under a shift."""

    class_name: ClassName
    """Class to show."""
    shift: str | None = Field(default=None, min_length=1, max_length=500)
    """Words to add after the class such as "in the snow", a name of the catalogue, or a whole prompt with
    `<class>`; null for plain images."""
    n: int = Field(default=8, ge=1, le=MAX_BATCH)
    """Number of images."""
    by_name: bool = False
    """Whether to use the class's plain name in place of its token."""
    steps: StepsOverride = None
    guidance: GuidanceOverride = None
    scheduler: SchedulerOverride = None
    seed: Seed
    """Seed of the images. Image i depends only on the seed, the class and i, so it can be reproduced and
    compared across shifts."""


class Image(ResponseBody):
    """A generated image of a class, with everything needed to reproduce it."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    class_name: str
    """Class that the image shows."""
    shift: str
    """Shift that the image shows; empty if there is none."""
    prompt: str
    """Prompt that the image was generated from, with the slot `<class>` if a token fills it."""
    seed: int
    """Seed of its starting noise."""
    token: BlobRef | None = None
    """SHA-256 of the token bundle, or null if the plain name was used."""


class Images(ResponseBody):
    """Answer to `ImagesCreate`."""

    images: list[Image]
    """The generated images, in order."""
    model: ModelIdentity
    """The weights that generated them."""
    cost: Cost
    """Total cost of the images."""
