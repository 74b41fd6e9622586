"""A model suite: the model, preset and limits of every service, as data.

The engines load every suite from the same file formats; nothing branches on a suite's name.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from counterpose_core.contract.dataset_interfaces import LearningPrompts
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.contract.editor_presets import EditorPreset, require_server_of
from counterpose_core.contract.judges import Calibration
from counterpose_core.contract.recipes import LARGEST_SIZE, WORKING_SIZE
from counterpose_core.contract.stress_test_thresholds import GateThresholds, TextThresholds
from counterpose_core.contract.suite_fit import KnownImages
from counterpose_core.contract.tokens import TextualInversionPreset
from counterpose_core.contract.transforms import SMALLEST_SIZE
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_core.suite_chats import ChatName, ChatSuite
from counterpose_core.suite_chats import JudgeSuite as JudgeSuite
from counterpose_core.suite_files import section_faults, suite_sections
from counterpose_core.suite_parts import ModelSuite, SuitePart
from counterpose_core.suite_parts import PublishedModel as PublishedModel
from counterpose_core.suite_servers import Server, SuiteServers, with_servers
from counterpose_core.transforms.table import LEVELS, operation
from counterpose_core.types import Cosine, JudgeName, ServiceName

_Part = TypeVar("_Part")

Engine = Literal["transformers", "vllm", "openai"]
"""Where a language model runs: in the replica, in a server that the replica starts, or in another's."""


class CaptionerSuite(ModelSuite):
    """BLIP-2 weights and decoding limits; ``labelled_prefix`` may hold ``{label}``.

    With the engine ``vllm`` or ``openai``, the model is one that chats about images: it gets ``instruction``
    with the image and goes on from the prefix, greedily, so ``beams`` must be 1.

    A caption is shortened to ``text_limit`` tokens of the captioner's own tokenizer, or as many as its words
    are counted for at a server. This is less than the editor's text encoder reads (77 minus two marks),
    because the two tokenizers split words differently.
    """

    engine: Engine = "transformers"
    model: str
    server: Server | None = None
    instruction: str = Field(default="Describe this image in one sentence.", min_length=1)
    beams: int = Field(default=5, ge=1)
    min_tokens: int = Field(default=20, ge=0)
    max_tokens: int = Field(default=100, ge=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    prefix: str = ""
    labelled_prefix: str = ""
    text_limit: int = Field(default=70, ge=1)
    batch: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _has_its_server(self) -> CaptionerSuite:
        _require_server(self.engine, self.server)
        if self.engine != "transformers" and self.beams != 1:
            raise ValueError(f"a server decodes greedily, not with {self.beams!r} beams; set beams = 1")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> CaptionerSuite:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens {self.min_tokens!r} is larger than max_tokens {self.max_tokens!r}; lower it"
            )
        return self


class PerturberSuite(ModelSuite):
    """A language model, its LoRA adapter, and sampling settings.

    ``engine`` says where it runs: in the replica with ``transformers``, in a ``vllm`` that the replica
    starts, or behind the ``openai`` API at ``server``, an address with ``/v1``. There, ``model`` and
    ``adapter`` are the names under which the server has the base alone and with its adapter; ``tokenizer``
    is a folder with the model's vocabulary, or null to send prompts as text. ``prompts`` is a TOML file of
    instructions, beside the suite's file; null means ours.
    """

    engine: Engine = "transformers"
    model: str
    adapter: str | None = None
    server: Server | None = None
    tokenizer: str | None = None
    temperature: float = Field(default=1.0, gt=0)
    top_k: int = Field(default=0, ge=0)
    max_new_tokens: int = Field(default=400, ge=1)
    prompt: Literal["instruction", "compact", "chat"] = "instruction"
    prompts: str | None = None
    batch: int = Field(default=32, ge=1)

    @model_validator(mode="after")
    def _has_its_server(self) -> PerturberSuite:
        _require_server(self.engine, self.server)
        if self.tokenizer is not None and self.engine != "openai":
            raise ValueError("tokenizer is for the engine 'openai'; the others read the model's own")
        return self


def _require_server(engine: Engine, server: str | None) -> None:
    if (engine == "openai") != (server is not None):
        raise ValueError("the engine 'openai', and no other, needs the address of a server, ending in /v1")


class EditorSuite(ModelSuite):
    """Weights of a Stable Diffusion model and the presets for them.

    A run that names no preset uses ``default_preset``; ``redraw`` names the preset that makes several draws
    of one image, and must draw its noise. ``preview_decoder`` is a small autoencoder of the same latents (an
    ``AutoencoderTiny``, such as TAESD); presets with ``preview`` choose by its images. Class tokens are
    learned with the settings ``textual_inversion`` and the prompts ``token_prompts``, in calls of
    ``token_link_steps`` steps (some seconds each), and images are generated with ``generation``.
    Bug hunts draw a class from ``photo_prompt``, whose brackets are left out where the parent is not known,
    with ``hunt_generation`` if it is set: guidance narrows what is drawn where the prompt leaves it open.

    Presets of the backend ``images-api`` are asked of ``server``, an address with ``/v1``; ``model`` is then
    the server's name of the model, so presets that load weights are for another suite. Images from text are
    squares of ``resolution`` pixels, unless a preset names their ``size``.
    """

    model: str
    server: Server | None = None
    preview_decoder: str | None = None
    # Autoencoders halve a side three times; no supported model was trained beyond 1024 pixels.
    resolution: int = Field(ge=8, le=2048, multiple_of=8)
    batch: int = Field(default=8, ge=1)
    default_preset: str
    redraw: str | None = None
    presets: dict[str, EditorPreset]
    textual_inversion: TextualInversionPreset = TextualInversionPreset()
    token_prompts: LearningPrompts = "templates"
    token_link_steps: int = Field(default=50, ge=1, le=20_000)
    generation: GenerationPreset = GenerationPreset()
    hunt_generation: GenerationPreset | None = None
    photo_prompt: str = "a realistic photograph of a <class> (<parent>)."

    @model_validator(mode="after")
    def _default_is_offered(self) -> EditorSuite:
        if self.default_preset not in self.presets:
            raise ValueError(
                f"default_preset {self.default_preset!r} is not among the presets {sorted(self.presets)}"
            )
        return self

    @model_validator(mode="after")
    def _server_makes_all_or_nothing(self) -> EditorSuite:
        require_server_of(self.presets, self.server, self.model_fields_set)
        return self

    @model_validator(mode="after")
    def _redraw_draws(self) -> EditorSuite:
        if self.redraw is None:
            return self
        preset = self.presets.get(self.redraw)
        if preset is None or not preset.draws:
            drawing = sorted(name for name, each in self.presets.items() if each.draws)
            raise ValueError(
                f"redraw {self.redraw!r} is not a preset that draws its noise; there are {drawing}"
            )
        return self

    @property
    def capabilities(self) -> Capabilities:
        """What some of its presets' backends can do."""
        return Capabilities.joined(preset.capabilities for preset in self.presets.values())

    @property
    def redraw_preset(self) -> EditorPreset | None:
        """The preset that makes several draws of one image, if the suite has one."""
        return None if self.redraw is None else self.presets[self.redraw]

    @model_validator(mode="after")
    def _previews_have_a_decoder(self) -> EditorSuite:
        unseen = [name for name, preset in self.presets.items() if preset.previews]
        if unseen and self.preview_decoder is None:
            raise ValueError(
                f"preset {unseen[0]!r} asks for previews, but the suite has no preview_decoder; add one"
            )
        return self


class ScorerSuite(ModelSuite):
    """CLIP, sentence encoder and masked LM, with the thresholds calibrated for these checkpoints.

    A generated image is filtered if its cosine with an objectionable concept reaches ``objectionable``;
    without this setting images are not checked. ``checkpoint`` names the published weights that ``clip``
    contains, so that thresholds published for them apply; ``shift_thresholds`` are the suite's own, by name
    of the shift. A suite may lack each of the three models, which is then "": stress tests do without, and
    say what was not measured. ``objectionable`` is measured by CLIP.
    """

    clip: str
    checkpoint: str | None = None
    sentence: str
    masked_lm: str
    gate: GateThresholds = GateThresholds()
    text: TextThresholds = TextThresholds()
    objectionable: Cosine | None = None
    shift_thresholds: dict[str, Cosine] = {}
    batch: int = Field(default=32, ge=1)


class SegmenterSuite(ModelSuite):
    """A segmentation network of transformers, which outlines the object of an image that has no mask.

    Of a network with two classes, ``background`` and another one, the other is the object. Of any other
    network it is the class of the image's label: by ``labels``, by its name, or by a name that stands above
    it in WordNet, as "cat" above "tabby".
    """

    model: str
    labels: dict[str, str] = {}
    batch: int = Field(default=8, ge=1)


class EncoderSuite(ModelSuite):
    """A vision network of transformers, such as DINOv2, whose features tell the class of an image."""

    model: str
    batch: int = Field(default=16, ge=1)

    @property
    def identity(self) -> str:
        """The model."""
        return self.model


class ClassifiersSuite(ModelSuite):
    """The suite's own classifiers by name, each a folder with safetensors and a class map.

    With ``allow_hf``, a user may also name image classifiers of transformers that are on this machine.
    """

    models: dict[str, str] = {}
    zero_shot: dict[str, str] = {}
    allow_timm: bool = True
    allow_hf: bool = False
    batch: int = Field(default=32, ge=1)


class TransformsSuite(SuitePart):
    """Operations on images, which need no network: those of a run that names none, their levels and size."""

    operations: tuple[str, ...] = Field(min_length=1)
    levels: tuple[Annotated[int, Field(ge=1, le=LEVELS)], ...] = Field(default=(1, 2, 3, 4, 5), min_length=1)
    size: int | None = Field(default=WORKING_SIZE, ge=SMALLEST_SIZE, le=LARGEST_SIZE)

    @field_validator("operations")
    @classmethod
    def _exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            try:
                operation(name)
            except InvalidRequest as error:
                raise ValueError(error.detail) from error
        return names


class Suite(SuitePart):
    """The settings of its services; a method that needs one that it leaves out is refused.

    ``known_images`` says what the images that the models were trained for measure at least; a suite without
    it says of no image that it lies outside. ``generator_gap`` is the standard deviation of the log-odds by
    which failure rates on a user's images differ from those on the generator's; a suite without it says
    nothing of a user's images. ``calibrations`` say how its judges agreed with people or an oracle.
    """

    name: str
    description: str
    captioner_part: CaptionerSuite | None = Field(default=None, alias="captioner")
    perturber_part: PerturberSuite | None = Field(default=None, alias="perturber")
    editor_part: EditorSuite | None = Field(default=None, alias="editor")
    scorer_part: ScorerSuite | None = Field(default=None, alias="scorer")
    segmenter: SegmenterSuite | None = None
    judge: JudgeSuite | None = None
    encoder: EncoderSuite | None = None
    chat: dict[ChatName, ChatSuite] = Field(default={}, max_length=64)
    calibrations: dict[JudgeName, Calibration] = {}
    classifiers: ClassifiersSuite
    transforms: TransformsSuite | None = None
    known_images: KnownImages | None = None
    generator_gap: float | None = Field(default=None, gt=0.0)

    @field_validator("judge", "encoder")
    @classmethod
    def _stand_beside_a_scorer(cls, part: _Part, info: ValidationInfo) -> _Part:
        # An invalid scorer is missing here, too; it has its own error.
        if part is not None and info.data.get("scorer_part", part) is None:
            raise ValueError("belongs to the scorer's application; add [scorer]")
        return part

    @field_validator("calibrations")
    @classmethod
    def _are_of_these_judges(
        cls, calibrations: dict[JudgeName, Calibration], info: ValidationInfo
    ) -> dict[JudgeName, Calibration]:
        for name, counts in calibrations.items():
            part: JudgeSuite | EncoderSuite | None = info.data.get(name)
            own = None if part is None else part.identity
            if counts.model not in (None, own):
                raise ValueError(
                    f"of the judge {name!r} is of {counts.model!r}, and the suite's is {own!r}: calibrate it "
                    "by `counterpose calibrate-judges`, or remove the calibration"
                )
        return calibrations

    @property
    def captioner(self) -> CaptionerSuite:
        """The captioner's part; raises UnknownModel if the suite has none."""
        return self._part("captioner", self.captioner_part)

    @property
    def perturber(self) -> PerturberSuite:
        """The perturber's part; raises UnknownModel if the suite has none."""
        return self._part("perturber", self.perturber_part)

    @property
    def editor(self) -> EditorSuite:
        """The editor's part; raises UnknownModel if the suite has none."""
        return self._part("editor", self.editor_part)

    @property
    def scorer(self) -> ScorerSuite:
        """The scorer's part; raises UnknownModel if the suite has none."""
        return self._part("scorer", self.scorer_part)

    @property
    def services(self) -> tuple[ServiceName, ...]:
        """The services that it has a part for, in the order of a run."""
        parts: dict[ServiceName, object] = {
            "captioner": self.captioner_part,
            "perturber": self.perturber_part,
            "editor": self.editor_part,
            # A deployment of the scorer's application.
            "scorer": self.scorer_part or self.segmenter,
            "classifiers": self.classifiers,
        }
        return tuple(name for name, part in parts.items() if part is not None)

    def published(self, service: ServiceName) -> dict[str, PublishedModel]:
        """Return where the models of one of its services are published, by their names."""
        parts: tuple[ModelSuite | None, ...] = {
            "captioner": (self.captioner_part,),
            "perturber": (self.perturber_part,),
            "editor": (self.editor_part,),
            "scorer": (self.scorer_part, self.segmenter, self.encoder),
            "classifiers": (self.classifiers,),
        }[service]
        return {name: each for part in parts if part is not None for name, each in part.published.items()}

    def _part(self, service: ServiceName, part: _Part | None) -> _Part:
        if part is None:
            raise UnknownModel(f"the suite {self.name!r} has no {service}; choose a suite with one")
        return part


def load_suite(name_or_file: str, servers: SuiteServers | None = None) -> Suite:
    """Read a suite by its name, or from the user's TOML file; ``servers`` are the settings it may refer to.

    A file with ``base = "miniature"`` at its top has the sections of that suite, or of another file, except
    those that it writes itself, which it writes whole.

    Raises:
        UnknownModel: no suite has this name.
        InvalidRequest: the file cannot be read, a field of it is missing, unknown or out of range, or a
            setting that it refers to is not set.
    """
    sections = with_servers(name_or_file, suite_sections(name_or_file), servers)
    try:
        return Suite.model_validate(sections)
    except ValidationError as error:
        known = [field.alias or name for name, field in Suite.model_fields.items()]
        raise InvalidRequest(f"the suite {name_or_file!r}: {section_faults(error, known)}") from error
