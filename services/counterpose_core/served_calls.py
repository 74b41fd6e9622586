"""Which services of a suite call servers of others, and the most that one call of theirs may cost."""

from __future__ import annotations

from collections.abc import Container
from urllib.parse import urlsplit

from pydantic import BaseModel

from counterpose_core.contract.captioner import CaptionRequest, LogLikelihoodRequest
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.editor import EditRequest, GenerateRequest
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.judges import JudgeRequest
from counterpose_core.contract.order_effects import OrderEffectRequest, rotations
from counterpose_core.contract.perturber import LikelihoodsRequest, PerturbRequest
from counterpose_core.contract.spending import Spent
from counterpose_core.suite import Suite
from counterpose_core.suite_chats import CHAT, ChatSuite, chats
from counterpose_core.text.caption_diff import difference

DRAWING_ROUNDS = 3
"""Rounds in which the perturber asks for edits; a caption that yields none in three yields none later."""
SIGHTS = 2
"""Calls by which a replica of the judge looks whether its model sees, before the first edit."""
LOOKS = 6
"""Calls by which a replica of the classifiers looks how a model that chats answers: two in each way."""


def called_models(suite: Suite) -> dict[str, tuple[str, str]]:
    """Return what calls a server, each with the server's name of the model and its host.

    That are services by their names, and classifiers that chat by theirs.
    """
    parts = {
        "captioner": suite.captioner_part,
        "perturber": suite.perturber_part,
        "editor": suite.editor_part,
        "scorer": suite.judge,
    }
    asked = parts | {f"{CHAT}{name}": part for name, part in suite.chat.items()}
    return {
        name: (part.model, urlsplit(part.server).netloc)
        for name, part in asked.items()
        if part is not None and part.server is not None
    }


def account_of(service: str, body: BaseModel) -> str:
    """Return who is paid for a call: a classifier that chats by its own name, else the service."""
    asked = body.classifier if isinstance(body, ClassifyRequest | OrderEffectRequest) else ""
    return asked if chats(asked) else service


def suite_of_request(request: object, suite: Suite, needs: Container[str] | None = None) -> Suite:
    """Return the suite without what the request does not ask: nobody pays for it.

    That are its judge and its classifiers that chat, unless the request names them, and whatever is not in
    the method's ``needs``, if they are given; a perturber varies captions for a hunt that asks for that.
    """
    specs = getattr(request, "classifiers", ())
    chat = {name: part for name, part in suite.chat.items() if f"{CHAT}{name}" in specs}
    judge = suite.judge if "judge" in getattr(request, "judges", ()) else None
    asked = suite.model_copy(update={"judge": judge, "chat": chat})
    if needs is None:
        return asked
    left_out = [name for name in ("captioner", "perturber", "editor") if name not in needs]
    if getattr(request, "vary", 0.0) and "perturber" in left_out:
        left_out.remove("perturber")
    return asked.model_copy(update={f"{name}_part": None for name in left_out})


def most_of_call(suite: Suite, service: str, body: BaseModel) -> Spent | None:
    """Return the most that a call to a service may cost, without the tokens that are sent.

    None where the service calls no server, or not for this.
    """
    if account_of(service, body) not in called_models(suite):
        return None
    match body:
        case EditRequest():
            # An image that is to stay as it is is drawn twice, whatever case and punctuation, and
            # one of a call again by its seed.
            controls = sum(difference(item.caption, item.edited_caption).is_empty for item in body.items)
            images = len(body.items) + controls + (controls > 0 and checks_seed(body.preset))
            return Spent(calls=images, images=images)
        case GenerateRequest():
            return Spent(calls=len(body.items), images=len(body.items))
        case CaptionRequest():
            return captions(suite, len(body.items))
        case LogLikelihoodRequest():
            return Spent(calls=2 * len(body.items), output_tokens=2 * len(body.items))
        case PerturbRequest():
            return variations(suite, [item.n for item in body.items])
        case LikelihoodsRequest():
            return Spent(calls=len(body.texts))
        case ClassifyRequest() | OrderEffectRequest():
            asked, labels = suite.chat[body.classifier.removeprefix(CHAT)], len(body.classes)
            orders = len(rotations(labels)) if isinstance(body, OrderEffectRequest) else 1
            looks = Spent(calls=LOOKS, output_tokens=LOOKS * asked.max_tokens)
            return answers(asked, orders * len(body.images), labels) + looks
        case JudgeRequest(judge="judge"):
            return judgements(suite, len(body.items)) + judgements(suite, SIGHTS)
        case _:
            return None


def checks_seed(preset: EditorPreset | None) -> bool:
    """Return whether a replica of the editor asks once more for the first control, by its seed."""
    return isinstance(preset, ImagesApiPreset) and preset.seeded


def captions(suite: Suite, n: int) -> Spent:
    """Return the most that ``n`` captions cost: each is written, and then weighed."""
    return Spent(calls=2 * n, output_tokens=n * (suite.captioner.max_tokens + 1))


def judgements(suite: Suite, n: int) -> Spent:
    """Return the most that ``n`` edits cost that the suite's judge is shown."""
    return Spent(calls=n, output_tokens=0 if suite.judge is None else n * suite.judge.max_tokens)


def answers(chat: ChatSuite, n: int, labels: int) -> Spent:
    """Return the most that ``n`` images cost that a classifier is asked about, with so many labels."""
    if chat.answers == "labels":
        calls = n * (labels + 1)
        return Spent(calls=calls, output_tokens=calls)
    return Spent(calls=n, output_tokens=n * chat.max_tokens)


def variations(suite: Suite, wanted: list[int]) -> Spent:
    """Return the most that so many edits of each of some captions cost."""
    perturber = suite.perturber
    # The compact prompt draws one edit at a time; the others list all in one answer.
    draws = DRAWING_ROUNDS * sum(n if perturber.prompt == "compact" else 1 for n in wanted)
    return Spent(calls=draws, output_tokens=draws * perturber.max_new_tokens)
