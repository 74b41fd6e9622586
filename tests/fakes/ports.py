"""The five ports without models: equal requests get equal answers, and each call is counted.

A test that needs a failure overrides one method of one class.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from counterpose_core.contract import captioner, classifiers, editor, judges, perturber, scorer, tokens
from counterpose_core.contract.base import BatchResponse, ModelIdentity, Outcome, Problem
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.contract.preservation import (
    Preservation,
    PreservationItem,
    PreservationRequest,
    PreservationResponse,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import CounterposeError, ImageUndecodable, InvalidRequest, UnknownModel
from counterpose_core.types import Cost, PerturbationType
from counterpose_gateway.services.ports import Services
from fakes.world import CLASSES, FakeWorld, Shown

T = TypeVar("T")
AnyBatch = TypeVar("AnyBatch", bound=BatchResponse[Any])

EDITS: dict[PerturbationType, tuple[str, tuple[str, ...]]] = {
    "subject": ("a red", ("a striped red", "a broken red", "a tiny red")),
    "object": ("a dog", ("a lamp", "a tree", "a chair")),
    "background": ("on the grass", ("in the snow", "on the sand", "in the fog")),
    "adjective": ("red", ("blue", "green", "yellow")),
    "domain": ("photo", ("painting", "sketch", "sculpture")),
    "placebo": ("on the grass", ("on the lawn",)),
}
"""The replacements of the fake perturber, by edit type."""


def _good(value: T) -> Outcome[T]:
    return Outcome(value=value)


def refusing(answer: AnyBatch, refused: Sequence[bool], error: CounterposeError) -> AnyBatch:
    """Return the answer with the error as the outcome of each item that is marked as refused."""
    problem: Outcome[Any] = Outcome(problem=Problem.of(error))
    outcomes = [problem if bad else one for bad, one in zip(refused, answer.outcomes, strict=True)]
    return answer.model_copy(update={"outcomes": outcomes})


def _model(name: str) -> ModelIdentity:
    return ModelIdentity(id=f"fake-{name}", revision="0")


class FakeCaptioner:
    """Captions an image by what it shows."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.calls: Counter[str] = Counter()

    async def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse:
        """Caption each image."""
        self.calls["caption"] += 1
        texts = [self.world.shown[item.image].caption for item in request.items]
        captions = [
            captioner.Caption(text=text, log_likelihood=-1.0, tokens=len(text.split())) for text in texts
        ]
        return captioner.CaptionResponse(
            outcomes=[_good(caption) for caption in captions], model=_model("captioner")
        )

    async def log_likelihood(
        self, request: captioner.LogLikelihoodRequest
    ) -> captioner.LogLikelihoodResponse:
        """Weigh each text by its length."""
        weights = [captioner.LogLikelihood(total=-float(len(item.text)), tokens=1) for item in request.items]
        return captioner.LogLikelihoodResponse(
            outcomes=[_good(weight) for weight in weights], model=_model("captioner")
        )


class FakePerturber:
    """Proposes the edits of the table above, beginning where the seed says."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse:
        """Propose edits of each caption."""
        self.calls["perturb"] += 1
        outcomes = [_good(self.propose(item)) for item in request.items]
        return perturber.PerturbResponse(outcomes=outcomes, model=_model("perturber"))

    async def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse:
        """Weigh each text by its letters, a token a word."""
        self.calls["likelihoods"] += 1
        weights = [
            perturber.TextLikelihood(nats=-float(len(text)), tokens=len(text.split()))
            for text in request.texts
        ]
        return perturber.LikelihoodsResponse(
            outcomes=[_good(weight) for weight in weights], model=_model("llama")
        )

    def propose(self, item: perturber.PerturbItem) -> perturber.Perturbations:
        """Replace the words of the type by each of their alternatives."""
        old, news = EDITS[item.perturbation_type]
        start = item.seed % len(news)
        texts = [item.caption.replace(old, new, 1) for new in (*news[start:], *news[:start])][: item.n]
        return perturber.Perturbations(
            edits=[perturber.CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts]
        )


def _cost(calls: int, evaluations: int) -> Cost:
    """The costs of an editor that waits once a call and computes one map in each evaluation."""
    return Cost(
        unet_calls=calls, unet_evaluations=evaluations, flops=1000 * evaluations,
        attention_map_bytes=8 * evaluations, host_syncs=calls,
    )  # fmt: skip


class FakeEditor:
    """Makes an image that shows the edited caption, noise otherwise."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.calls: Counter[str] = Counter()
        self.steps: dict[str, int] = {}
        self.noise: tuple[int, ...] = ()

    async def reconstruct(self, request: editor.ReconstructRequest) -> editor.ReconstructResponse:
        """Make another image of the same truth."""
        self.calls["reconstruct"] += 1
        steps = PromptToPromptPreset.of(request.preset).steps
        cost = _cost(steps, steps)
        made = [
            editor.Reconstruction(image=self._draw(item.image, item.caption, None), psnr_db=30.0, cost=cost)
            for item in request.items
        ]
        outcomes = [_good(value) for value in made]
        return editor.ReconstructResponse(outcomes=outcomes, model=_model("editor"), cost=cost)

    async def edit(self, request: editor.EditRequest) -> editor.EditResponse:
        """Make one image a value that is asked for."""
        self.calls["edit"] += 1
        # Only this inversion draws; the images of the others depend on no seed.
        preset = PromptToPromptPreset.of(request.preset)
        self.noise = (preset.seed,) if preset.inversion == "virtual" else ()
        steps = preset.steps * len(request.values)
        cost = _cost(steps, steps)
        outcomes = []
        for item in request.items:
            drawn = [(value, self._draw(item.image, item.edited_caption, value)) for value in request.values]
            variants = [editor.EditVariant(strength=value, image=ref) for value, ref in drawn]
            outcomes.append(_good(editor.EditedImage(variants=variants, cost=cost)))
        total = _cost(steps, steps * len(request.items) + preset.steps)
        return editor.EditResponse(outcomes=outcomes, model=_model("editor"), cost=total)

    async def generate(self, request: editor.GenerateRequest) -> editor.GenerateResponse:
        """Make one image a prompt and seed."""
        self.calls["generate"] += 1
        made = [self.world.add(Shown("", item.prompt), item.seed) for item in request.items]
        outcomes = [_good(editor.GeneratedImage(image=ref)) for ref in made]
        return editor.GenerateResponse(outcomes=outcomes, model=_model("editor"))

    async def learn_tokens(self, request: tokens.LearnTokensRequest) -> tokens.LearnTokensResponse:
        """Go a link further; the bundle is named after class, images and steps."""
        self.calls["learn_tokens"] += 1
        outcomes = [_good(self.learn(request, item)) for item in request.items]
        return tokens.LearnTokensResponse(outcomes=outcomes, model=_model("editor"))

    def learn(self, request: tokens.LearnTokensRequest, item: tokens.LearnTokenItem) -> tokens.LearnedToken:
        """One link of one class; its checkpoint says how far it is. A published token needs none."""
        if item.published is not None:
            return tokens.LearnedToken(class_name=item.class_name, steps=0, bundle=item.published)
        begun = self.steps.get(item.checkpoint or "", 0)
        steps = min(begun + request.link_steps, request.preset.steps)
        name = [item.class_name, *item.images, *(item.prompts or ()), str(steps), str(request.seed)]
        checkpoint = hashlib.sha256("|".join(name).encode()).hexdigest()
        self.steps[checkpoint] = steps
        bundle = checkpoint if steps == request.preset.steps else None
        losses = [1.0 / (1 + step) for step in range(begun, steps)]
        return tokens.LearnedToken(
            class_name=item.class_name, steps=steps, checkpoint=checkpoint, bundle=bundle, losses=losses,
            offers=[] if bundle is None else self.offers(request, bundle),
            images=len(item.images), cost=_cost(steps - begun, steps - begun),
        )  # fmt: skip

    def offers(self, request: tokens.LearnTokensRequest, bundle: str) -> list[tokens.TokenOffer]:
        """Bundles named after the last one and their interpolation weight."""
        *others, last = request.preset.interpolation_weights
        names = [hashlib.sha256(f"{bundle}|{weight}".encode()).hexdigest() for weight in others]
        pairs = zip((*others, last), (*names, bundle), strict=True)
        return [tokens.TokenOffer(interpolation_weight=weight, bundle=name) for weight, name in pairs]

    def _draw(self, source: str, caption: str, strength: float | None) -> str:
        label = self.world.shown[source].label
        return self.world.add(Shown(label, caption, strength), source, *self.noise)


class FakeScorer:
    """Finds every edit good, and better for a smaller strength; different words are dissimilar."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.calls: Counter[str] = Counter()

    async def score(self, request: scorer.ScoreRequest) -> scorer.ScoreResponse:
        """Measure each edit."""
        self.calls["score"] += 1
        outcomes = [_good(self.measure(item)) for item in request.items]
        return scorer.ScoreResponse(
            outcomes=outcomes, model=_model("scorer"), cost=Cost(clip_passes=len(outcomes))
        )

    def measure(self, item: scorer.ScoreItem) -> scorer.EditScores:
        """Scores that pass LANCE's thresholds."""
        fraction = self.world.shown[item.edited].strength or 0.0
        return scorer.EditScores(
            direction=0.6 - 0.3 * fraction, image_image=0.8 + 0.1 * fraction, text_original=0.3,
            text_edited=0.3, text_edited_source=0.25, text_original_edit=0.25,
            words_added=0.3 if item.added else None, words_removed=0.2 if item.removed else None,
        )  # fmt: skip

    async def embed_images(self, request: scorer.EmbedImagesRequest) -> scorer.EmbedResponse:
        """Embed each image."""
        self.calls["embed_images"] += 1
        return self._embed(request.images, "clip")

    async def embed_texts(self, request: scorer.EmbedTextsRequest) -> scorer.EmbedResponse:
        """Embed each text."""
        self.calls["embed_texts"] += 1
        return self._embed(request.texts, request.encoder)

    def _embed(self, names: list[str], encoder: str) -> scorer.EmbedResponse:
        outcomes = [_good(scorer.Embedding(vector=self.vector(name))) for name in names]
        return scorer.EmbedResponse(outcomes=outcomes, model=_model(encoder))

    def vector(self, text: str) -> list[float]:
        """A separate direction for every text: in 256 dimensions, nearly orthogonal to all others."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        return [float(value) for value in np.random.default_rng(seed).standard_normal(256)]

    async def fill_mask(self, request: scorer.FillMaskRequest) -> scorer.FillMaskResponse:
        """Replace every word by the same one."""
        outcomes = [_good(scorer.FilledMask(words=["thing"], probabilities=[1.0])) for _ in request.items]
        return scorer.FillMaskResponse(outcomes=outcomes, model=_model("masked-lm"))

    async def preservation(self, request: PreservationRequest) -> PreservationResponse:
        """See nothing move."""
        self.calls["preservation"] += 1
        outcomes = [_good(self.preserved(item)) for item in request.items]
        return PreservationResponse(outcomes=outcomes, model=_model("scorer"))

    def preserved(self, item: PreservationItem) -> Preservation:
        """Nothing but what was asked for changed."""
        share = 0.0 if item.control else 0.2
        return Preservation(
            control=item.control, faults=[], size_ratio=(1.0, 1.0), region_share=share, map=item.edited
        )

    async def judge(self, request: judges.JudgeRequest) -> judges.JudgeResponse:
        """Call every edit right."""
        self.calls[request.judge] += 1
        outcomes = [_good(self.judged(request.judge, item)) for item in request.items]
        return judges.JudgeResponse(outcomes=outcomes, model=_model(request.judge))

    def judged(self, judge: judges.AskedJudge, item: judges.JudgeItem) -> judges.Judgement:
        """Yes."""
        return judges.Judgement(verdict="yes")

    async def segment(self, request: scorer.SegmentRequest) -> scorer.SegmentResponse:
        """See the object of every image but of those of the class ``unseen``."""
        self.calls["segment"] += 1
        outcomes = [_good(self.outline(item)) for item in request.items]
        return scorer.SegmentResponse(outcomes=outcomes, model=_model("segmenter"))

    def outline(self, item: scorer.SegmentItem) -> scorer.Segment:
        """A mask of its own for each image, which overlaps the known one by nine tenths."""
        if item.label == "unseen":
            return scorer.Segment(mask=None, share=0.0, why="the segmenter sees it nowhere")
        mask = hashlib.sha256(f"mask of {item.image}".encode()).hexdigest()
        return scorer.Segment(mask=mask, share=0.4, overlap=None if item.exact is None else 0.9)


class FakeClassifiers:
    """``steady`` and ``timm:resnet18`` are always right; ``leaning`` misses its class where there is snow."""

    def __init__(self, world: FakeWorld, classes: tuple[str, ...] = CLASSES) -> None:
        self.world = world
        self.classes = classes
        self.calls: Counter[str] = Counter()

    async def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse:
        """Predict each image."""
        self.calls[request.classifier] += 1
        if request.classifier not in ("steady", "leaning", "timm:resnet18"):
            raise UnknownModel(f"no classifier is named {request.classifier!r}")
        outcomes = [self._answer(request, image) for image in request.images]
        return classifiers.ClassifyResponse(outcomes=outcomes, model=_model(request.classifier))

    def _answer(self, request: classifiers.ClassifyRequest, image: str) -> Outcome[classifiers.Prediction]:
        try:
            return _good(self.predict(request, image))
        except KeyError:
            # A test's images need not show anything until a worker asks.
            return Outcome(problem=Problem.of(ImageUndecodable(f"nobody knows what image {image} shows")))

    def predict(self, request: classifiers.ClassifyRequest, image: str) -> classifiers.Prediction:
        """The true class gets 0.9, or 0.1 where this classifier is led astray."""
        shown = self.world.shown[image]
        p_true = 0.1 if request.classifier == "leaning" and "snow" in shown.caption else 0.9
        rest = (1.0 - p_true) / (len(request.classes) - 1)
        probabilities = [p_true if name == shown.label else rest for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return classifiers.Prediction(probabilities=probabilities, top=top)

    async def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription:
        """Tell of timm's what its name says, and nothing of any other."""
        self.calls["describe"] += 1
        spec = request.classifier
        architecture = spec.removeprefix("timm:") if spec.startswith("timm:") else ""
        return classifiers.ClassifierDescription(
            name=spec, spec=spec, architecture=architecture, parameters=11_000_000, resolution=224
        )

    async def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """None of these chats."""
        raise InvalidRequest(f"{request.classifier!r} reads no list of labels")

    async def list_classifiers(self) -> classifiers.ClassifierList:
        """Name both classifiers."""
        described = [
            classifiers.ClassifierDescription(name=name, spec=name, classes=list(self.classes))
            for name in ("steady", "leaning")
        ]
        return classifiers.ClassifierList(classifiers=described)


def fake_services(
    world: FakeWorld,
    *,
    captioner: FakeCaptioner | None = None,
    perturber: FakePerturber | None = None,
    editor: FakeEditor | None = None,
    scorer: FakeScorer | None = None,
    classifiers: FakeClassifiers | None = None,
) -> Services:
    """All five ports over one world; the given ones replace the default fakes."""
    return Services(
        captioner=captioner or FakeCaptioner(world),
        perturber=perturber or FakePerturber(),
        editor=editor or FakeEditor(world),
        scorer=scorer or FakeScorer(world),
        classifiers=classifiers or FakeClassifiers(world),
    )
