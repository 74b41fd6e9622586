"""A world to hunt bugs in: a generator that chooses circumstances, and a classifier that fails in snow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from counterpose_core.bug_hunt.parts import phrases
from counterpose_core.contract import captioner, classifiers, editor
from counterpose_core.contract.base import Outcome
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.services.ports import Services
from fakes.ports import FakeCaptioner, FakeClassifiers, FakeEditor, fake_services, refusing
from fakes.world import CLASSES, FakeWorld, Shown

CIRCUMSTANCES = ("in the snow", *(("on the grass", "on the sand", "in the fog") * 2))
"""What the generator draws where the prompt leaves it open: snow in a seventh of the images."""

THINGS = ("a dog", "a lamp", "a ball")
FAILS_IN_SNOW = 0.7
FAILS_ELSEWHERE = 0.02


def chance(*names: object) -> float:
    """A number in [0, 1) that depends on the names alone."""
    told = "|".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:6]) / 2**48


def chosen(options: Sequence[str], *names: object) -> str:
    """One of the options, by the names alone."""
    return options[int(chance(*names) * len(options))]


class HuntEditor(FakeEditor):
    """Draws what a prompt says, and chooses the rest by the seed; it does not know ``unknown`` words.

    Snow is called ``snow`` in captions; it makes no difference to the classifiers.
    """

    def __init__(self, world: FakeWorld, unknown: str = "zyx", snow: str = "snow") -> None:
        super().__init__(world)
        self.unknown = unknown
        self.snow = snow

    async def generate(self, request: editor.GenerateRequest) -> editor.GenerateResponse:
        """Make one image a prompt and seed."""
        self.calls["generate"] += 1
        outcomes: list[Outcome[editor.GeneratedImage]] = [
            Outcome(value=editor.GeneratedImage(image=self.drawn(item))) for item in request.items
        ]
        identity = (await super().generate(request)).model
        answer = editor.GenerateResponse(outcomes=outcomes, model=identity)
        refused = [self.unknown in item.prompt.split() for item in request.items]
        return refusing(answer, refused, InvalidRequest(f"{self.unknown!r} is no word of the vocabulary"))

    def drawn(self, item: editor.GenerateItem) -> str:
        """The image of a prompt and seed."""
        label = next((name for name in CLASSES if name in item.prompt), "")
        named = [place for place in CIRCUMSTANCES if place in item.prompt.replace(self.snow, "snow")]
        place = named[0] if named else chosen(CIRCUMSTANCES, "place", item.seed)
        thing = chosen(THINGS, "thing", item.seed)
        told = f"a photo of a {label} {place.replace('snow', self.snow)} next to {thing}"
        return self.world.add(Shown(label, told), item.seed)


class HuntClassifiers(FakeClassifiers):
    """``leaning`` mostly fails on plates in snow and hardly elsewhere, ``steady`` hardly ever.

    With ``always`` or ``never``, both fail on every image, or on none.
    """

    def __init__(self, world: FakeWorld, *, always: bool = False, never: bool = False) -> None:
        super().__init__(world)
        self.always = always
        self.never = never

    def predict(self, request: classifiers.ClassifyRequest, image: str) -> classifiers.Prediction:
        """0.9 for the label, or 0.1 where the classifier fails."""
        shown = self.world.shown[image]
        is_weak = request.classifier == "leaning" and shown.label == "plate" and "snow" in shown.caption
        rate = FAILS_IN_SNOW if is_weak else FAILS_ELSEWHERE
        rate = 1.0 if self.always else 0.0 if self.never else rate
        wrong = chance(request.classifier, image) < rate
        labels = [name for name in request.classes if name != shown.label]
        answer = "sled" if wrong and shown.label != "sled" else labels[0] if wrong else shown.label
        probabilities = [0.9 if name == answer else 0.1 / len(labels) for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return classifiers.Prediction(probabilities=probabilities, top=top)


class HuntCaptioner(FakeCaptioner):
    """Goes on from a given prefix; a phrase of the image's caption is likelier than any other."""

    async def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse:
        """Caption each image."""
        answer = await super().caption(request)
        told = [outcome.unwrap() for outcome in answer.outcomes]
        for item, each in zip(request.items, told, strict=True):
            assert item.prefix is None or each.text.startswith(item.prefix)
        return answer

    async def log_likelihood(
        self, request: captioner.LogLikelihoodRequest
    ) -> captioner.LogLikelihoodResponse:
        """Weigh each phrase by its words, and by whether the image's caption has it."""
        outcomes: list[Outcome[captioner.LogLikelihood]] = []
        for item in request.items:
            assert item.prefix
            shown = self.world.shown[item.image].caption
            said = phrases(item.text.split())
            total = sum(len(each) * (-0.1 if " ".join(each) in shown else -3.0) for each in said)
            tokens = sum(map(len, said))
            outcomes.append(Outcome(value=captioner.LogLikelihood(total=total, tokens=tokens)))
        model = (await super().log_likelihood(request)).model
        return captioner.LogLikelihoodResponse(outcomes=outcomes, model=model)


def hunted_services(world: FakeWorld) -> Services:
    """The services of this world."""
    return fake_services(
        world,
        editor=HuntEditor(world),
        classifiers=HuntClassifiers(world),
        captioner=HuntCaptioner(world),
    )
