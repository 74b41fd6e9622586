"""The closed sets of names and the small types that every layer shares."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from counterpose_core.field_descriptions import Described
from counterpose_core.kinds import ItemKind as ItemKind
from counterpose_core.kinds import RunKind as RunKind
from counterpose_core.text_form import TextForm

EditType = Literal["subject", "object", "background", "adjective", "domain"]
"""The five factors of visual variation (LANCE, section 3.1); weather belongs to background."""

PerturbationType = Literal["subject", "object", "background", "adjective", "domain", "placebo"]
"""The types of edits that the perturber makes: an edit type, or a placebo (other wording, same meaning)."""

ItemState = Literal["pending", "leased", "done", "filtered", "failed", "cancelled"]
RunState = Literal[
    "validating",
    "queued",
    "in_progress",
    "finalizing",
    "completed",
    "completed_with_failures",
    "failed",
    "cancelling",
    "resuming",
    "cancelled",
]
JudgeName = Literal["clip", "encoder", "judge"]
"""Who may judge an edit: CLIP's gate, a second encoder, or a model that chats."""

ServiceName = Literal["captioner", "perturber", "editor", "scorer", "classifiers"]
"""The five services; a suite may leave some out."""

JobState = Literal["queued", "in_progress", "completed", "failed", "cancelling", "cancelled"]
"""State of a Ray job: ``in_progress`` while its workers report, ``completed`` when its run has."""

Inversion = Literal["null-text", "negative-prompt", "direct", "virtual"]
Solver = Literal["ddim", "dpm-solver++", "consistent"]
"""How a target gets from one noise level to the next; ``consistent`` moves it in parallel with its source."""
TimestepSpacing = Literal["leading", "trailing", "linspace", "distilled"]
"""Which noise levels sampling visits, by diffusers' names; ``distilled``: those a model was distilled on."""
Scheduler = Literal[
    "DDIMScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LCMScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "TCDScheduler",
    "UniPCMultistepScheduler",
]
"""The schedulers of diffusers for models that predict noise or velocity at discrete levels, by class name.

Its other schedulers are left out: those for flow matching, score and EDM models need other models, inverse
and inpainting schedulers need an image, the parallel ones repeat DDIM and DDPM, and the one with a Brownian
tree needs another library.
"""
Side = Literal["inside", "outside"]
"""Of a mask."""

Decoder = Literal["full", "preview"]
"""What decodes latents into images: the pipeline's autoencoder, or the suite's small one."""
Selection = Literal["paper", "released"]
"""How to choose from the strength sweep: the best direction among values that pass, or the largest."""
TokenAlignment = Literal["words", "released"]
"""How the tokens of two captions correspond: word by word, or as prompt-to-prompt's released code."""
WeightedWords = Literal["added", "released"]
"""Words that an edit weights: the added ones, or, as released, every other occurrence of them too."""
InjectionEnd = Literal["exact", "released"]
"""How a fraction of the steps becomes a number of steps: exactly, or as in the released code."""

EDIT_TYPES: tuple[EditType, ...] = get_args(EditType)
FINAL_ITEM_STATES: tuple[ItemState, ...] = ("done", "filtered", "failed", "cancelled")
FINAL_RUN_STATES: tuple[RunState, ...] = ("completed", "completed_with_failures", "failed", "cancelled")
FINAL_JOB_STATES: tuple[JobState, ...] = ("completed", "failed", "cancelled")

BlobRef = Annotated[
    str, Field(pattern=r"^[0-9a-f]{64}$"), TextForm("must be a digest of stored bytes: 64 digits from 0 to f")
]
"""SHA-256 of stored bytes, in hexadecimal: the name of a blob."""

Name = Annotated[
    str,
    Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$", max_length=96),
    TextForm(
        "must be a name, not a path: at most 96 letters from a to z, digits, dots, dashes and underscores, "
        "the first a letter or a digit"
    ),
]
"""The name of a dataset or class map; it cannot be a path."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def _require_portable(name: str) -> str:
    # An export makes folders and files of it, and Windows also drops a dot at a name's end.
    if _RESERVED.fullmatch(name) or name.endswith("."):
        raise ValueError(f"Windows reserves the name {name!r}; choose another")
    return name


PortableName = Annotated[Name, AfterValidator(_require_portable)]
"""A name that any file system can have."""

Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]
"""A cosine similarity of embeddings."""

NEVER_SERVED = (
    "a Python function ('py:...') cannot run on a server: pass it to the SDK or the command line with a "
    "gateway on the same machine, or serve the model yourself and name it oip:<url>"
)


def _served(value: object) -> object:
    kind, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "py":
        raise ValueError(NEVER_SERVED)
    if colon and kind.isalnum() and kind not in CLASSIFIER_KINDS:
        also = (
            f"; timm has most networks of torchvision, as timm:{name[:60]}" if kind == "torchvision" else ""
        )
        raise ValueError(f"{kind[:40] + colon!r} is no kind of classifier{also}; {CLASSIFIER_FORM}")
    return value


CLASSIFIER_KINDS = ("timm", "local", "clip", "hf", "oip", "chat")
CLASSIFIER_FORM = (
    "write the name of one of the suite's, or timm:, local:, clip: or hf: and a name, chat: and the name of "
    "one of the suite's questions, or oip: and the address of a model server"
)

ClassifierSpec = Annotated[
    str,
    Field(
        max_length=255,
        pattern=r"^((timm|local|clip):)?[a-zA-Z0-9][a-zA-Z0-9_.-]*$|^oip:https?://[a-zA-Z0-9_.:/-]+$"
        r"|^hf:[a-zA-Z0-9][a-zA-Z0-9_.-]*(/[a-zA-Z0-9][a-zA-Z0-9_.-]*)?$|^chat:[a-zA-Z0-9][a-zA-Z0-9_.-]{0,26}$",
    ),
    TextForm(f"is no classifier's name; {CLASSIFIER_FORM}"),
    # It runs before the pattern, and says more; written after it, because it would hide the pattern from the
    # schema.
    BeforeValidator(_served),
]
"""``name`` (of the suite), ``timm:``, ``local:``, ``clip:``, ``hf:``, ``chat:`` and a name, ``oip:<url>``."""

FunctionAddress = Annotated[
    str,
    Field(
        max_length=400,
        # Only the port and the path that hold a secret of at least 128 bits, and only a model's own paths: a
        # caller who may name such an address reaches no server that was not started to be named.
        pattern=r"^http://127\.0\.0\.1:[1-9][0-9]{0,4}/[0-9a-f]{32,128}/v2/models/[A-Za-z0-9][A-Za-z0-9_.-]*"
        r"/versions/[A-Za-z0-9][A-Za-z0-9_.-]*$",
    ),
    TextForm("must be the address of a function on this machine, as the SDK serves it"),
]
"""Where the SDK serves a function or model object of the caller's program: its path begins with a secret."""

SourceName = Annotated[str, Field(min_length=1, max_length=1024)]
"""An image's id, its file name, or its class and file name separated by a slash."""

RefusedWord = Annotated[
    str,
    Field(min_length=1, max_length=64, pattern=r"^\w+([-']\w+)*$"),
    TextForm("must be one word of at most 64 letters, without spaces"),
]
"""A single word: a phrase would never match a word of a caption."""

FunctionSpec = Annotated[
    str,
    Field(max_length=255, pattern=r"^py:[A-Za-z]\w*(\.[A-Za-z]\w*)*:[A-Za-z]\w*$"),
    TextForm("must name a function of a module, as py:module:function"),
]
"""``py:module:function``: a function of the caller's program, as a command line takes it."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# The range of a signed 64-bit column; strict, because 3.0 or "3" would give one seed a second cache key.
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]

_SI_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


class Estimate(Described, frozen=True, allow_inf_nan=False):
    """A figure with its 95 % confidence interval and the number of units behind it."""

    estimate: float | None
    """The figure, or null if there are too few units."""
    low: float | None
    """Lower end of the 95 % interval, or null if there is no figure."""
    high: float | None
    """Upper end of the 95 % interval, or null if there is no figure."""
    n: int = Field(ge=0)
    """Number of independent units behind the figure, such as source images."""

    @model_validator(mode="after")
    def _ordered(self) -> Estimate:
        known = (self.estimate, self.low, self.high)
        if any(value is None for value in known) and not all(value is None for value in known):
            raise ValueError("an estimate must have all of estimate, low and high, or none of them")
        return self

    def __str__(self) -> str:
        if self.estimate is None or self.low is None or self.high is None:
            return f"- (n={self.n})"
        # A negative zero becomes a plain one.
        estimate, low, high = (round(value, 3) + 0.0 for value in (self.estimate, self.low, self.high))
        return f"{estimate:.3f} [{low:.3f}, {high:.3f}] (n={self.n})"


def format_si(amount: int, unit: str) -> str:
    """Return an amount (>= 0) as text with an SI prefix: 803273441280 FLOP is ``803 GFLOP``."""
    value, step = float(amount), 0
    # 999.5 would be written as 1000.
    while value >= 999.5 and step < len(_SI_PREFIXES) - 1:
        value, step = value / 1000, step + 1
    digits = 0 if step == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_SI_PREFIXES[step]}{unit}"


class Cost(Described, frozen=True, allow_inf_nan=False):
    """The cost of a result; counts are exact, seconds depend on the machine."""

    unet_calls: int = 0
    """Number of batches that went through the UNet."""
    unet_evaluations: int = 0
    """Number of samples that went forward through the UNet."""
    unet_backward_evaluations: int = 0
    """Number of samples that went backward through the UNet."""
    vae_passes: int = 0
    """Number of images encoded or decoded by the autoencoder."""
    clip_passes: int = 0
    """Number of inputs embedded by CLIP."""
    flops: int = 0
    """Floating-point operations of UNet and autoencoder; a multiply-add counts as two."""
    attention_map_bytes: int = 0
    """Size of the attention maps that were computed outside a fused kernel, in bytes."""
    host_syncs: int = 0
    """Number of times a diffusion loop waited for the device to return a result."""
    float32_retries: int = 0
    """Number of null-text inversions repeated in float32 because they failed in half precision."""
    seconds: float = 0.0
    """Wall-clock time in seconds."""

    def __add__(self, other: Cost) -> Cost:
        # By field name, so that the sum includes fields that are added later.
        mine, theirs = self.model_dump(), other.model_dump()
        return Cost.model_validate({name: mine[name] + theirs[name] for name in mine})

    def __str__(self) -> str:
        if not self.unet_evaluations + self.flops:
            return "no UNet evaluation"
        backward = self.unet_backward_evaluations
        also = f" and {backward:,} backward" if backward else ""
        return (
            f"{self.unet_evaluations:,} UNet evaluations (F){also} in {self.unet_calls:,} calls, "
            f"{format_si(self.flops, 'FLOP')}"
        )
