"""The judges of a run beside CLIP: each says whether an image is right, and the rule keeps or drops it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.field_errors import FieldFault
from counterpose_core.contract.judges import (
    MOST_OF_CLASS,
    MOST_REFERENCES,
    AskedJudge,
    Calibration,
    JudgeItem,
    Judgement,
    JudgeRequest,
    Rule,
)
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.stress_test.filters import GateReason
from counterpose_core.suite import Suite
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.screen.edits import Draft
from counterpose_gateway.methods.stress_test.screen.gate import CRITERIA
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.services.ports import Services

DROPPED, UNDECIDED = "gate-judges", "gate-undecided"
"""The reasons of an image that too few judges call right, and of one that hangs on a judge without a vote."""
JUDGED_AS: Mapping[str, str] = MappingProxyType({DROPPED: "judges", UNDECIDED: "undecided"})
"""Reason → the filter's name in ``yield``."""
JUDGED_KINDS = frozenset(CRITERIA) - {"lance-r"}
"""Kinds of items that judges look at; the random baseline has a criterion of its own."""
_MOST_JUDGED = 16
"""Images in one call: a model that chats takes seconds for each."""


def is_judged(config: StressTestConfig, kind: ItemKind) -> bool:
    """Whether other judges than CLIP are asked about images of this kind."""
    return bool(config.request.rule.asked) and kind in JUDGED_KINDS


def with_clip(result: ItemResult, failed: GateReason | None) -> ItemResult:
    """Return a result with CLIP's verdict, by the criterion of the gate that it fails."""
    verdict = Judgement(verdict="yes") if failed is None else Judgement(verdict="no", detail=failed)
    return result.model_copy(update={"judgements": {**result.judgements, "clip": verdict}})


async def keep_judged(calls: Calls, subject: Subject, drafts: Sequence[Draft]) -> tuple[list[Draft], Drops]:
    """Ask the run's judges about each draft, record what they say, and drop those that the rule drops.

    All are asked about every image, also where CLIP's verdict alone would drop it: only so can they be held
    against each other, and a run be judged again by another rule.
    """
    drops, ended, judged = Drops(), dict[str, Draft](), list[Draft]()
    for draft in drafts:
        if is_judged(subject.config, draft.item.kind):
            judged.append(draft)
        else:
            ended[draft.item.id] = draft
    for start in range(0, len(judged), _MOST_JUDGED):
        for draft in await _judged(calls, subject, judged[start : start + _MOST_JUDGED], drops):
            ended[draft.item.id] = draft
    return [ended[draft.item.id] for draft in drafts if draft.item.id in ended], drops


async def _judged(calls: Calls, subject: Subject, drafts: Sequence[Draft], drops: Drops) -> list[Draft]:
    rule, kept = subject.config.request.rule, list[Draft]()
    with drops.on_error([draft.item for draft in drafts]):
        answers = await together(_asked(calls, subject, drafts, name) for name in rule.asked)
        for draft, *outcomes in zip(drafts, *answers, strict=True):
            with drops.on_error([draft.item]):
                told = {name: each.unwrap() for name, each in zip(rule.asked, outcomes, strict=True)}
                judgements = {**draft.result.judgements, **told}
                found = voted(rule, draft.result.model_copy(update={"judgements": judgements}))
                if found.reason is None:
                    kept.append(Draft(draft.item, found.result))
                else:
                    drops.filtered(draft.item, found.reason, found.detail, found.result)
    return kept


async def _asked(
    calls: Calls, subject: Subject, drafts: Sequence[Draft], name: AskedJudge
) -> list[Outcome[Judgement]]:
    items = [
        JudgeItem(
            original=subject.image,
            edited=draft.image,
            label=subject.label,
            caption=draft.result.caption,
            edited_caption=draft.result.edited_caption or draft.result.caption,
            change=draft.item.kind != "placebo",
        )
        for draft in drafts
    ]
    references = subject.config.references if name == "encoder" else {}
    request = JudgeRequest(judge=name, items=items, references=references)
    return await calls.ask("scorer", calls.services.scorer.judge, request, model=name)


@dataclass(frozen=True)
class Voted:
    """A result after the vote: the reason for which it is dropped, or None, and what each judge says."""

    result: ItemResult
    reason: str | None
    detail: str


def voted(rule: Rule, result: ItemResult) -> Voted:
    """Decide about a result by what its judges say."""
    reasons = {"kept": None, "dropped": DROPPED, "undecided": UNDECIDED}
    return Voted(result, reasons[rule.decide(result.judgements)], _said(result.judgements))


def rule_again(request: StressTestCreate, thresholds: Thresholds) -> Rule:
    """Return the rule by which a run is judged again: the request's, but for what a reader chose.

    Raises:
        InvalidRequest: the choice does not fit the run's judges.
    """
    own = request.thresholds
    try:
        return Rule.of(
            request.judges,
            own.keep if thresholds.keep is None else thresholds.keep,
            own.without if thresholds.without is None else thresholds.without,
        )
    except FieldFault as error:
        raise InvalidRequest(str(error), pointer=f"/{error.location[-1]}") from error


def _said(judgements: Mapping[str, Judgement]) -> str:
    return "; ".join(
        f"{name} says {each.verdict}{f' ({each.detail})' if each.detail else ''}"
        for name, each in judgements.items()
    )


def references_of(rule: Rule, sources: SourceTable) -> dict[str, list[str]]:
    """Return images that stand for each class, if the encoder is asked: its first sources, by their digests.

    Raises:
        InvalidRequest: there are more classes than may have one.
    """
    if "encoder" not in rule.judges:
        return {}
    labels = sources.label_names
    if len(labels) > MOST_REFERENCES:
        raise InvalidRequest(
            f"the judge 'encoder' compares at most {MOST_REFERENCES} classes, and these images have "
            f"{len(labels)}; leave it out of the judges",
            pointer="/judges",
        )
    most = min(MOST_OF_CLASS, MOST_REFERENCES // len(labels))
    found: dict[str, list[str]] = {}
    for number in range(len(sources)):
        of_class = found.setdefault(sources.label(number), [])
        if len(of_class) < most:
            of_class.append(sources.image(number))
    return found


def calibrations_of(rule: Rule, suite: Suite) -> dict[str, Calibration]:
    """Return what the suite says of a run's judges; nothing of CLIP alone, whose run is as it was before."""
    known = suite.calibrations if rule.asked else {}
    return {name: known[name] for name in rule.judges if name in known}


def require_judges(create: StressTestCreate, suite: Suite) -> None:
    """Refuse judges that the suite does not have, or of a request that edits nothing.

    Raises:
        InvalidRequest: it lacks one; the message names it.
    """
    if create.rule.asked and not create.edits_captions:
        raise InvalidRequest(
            "judges look at edits, and no image is edited by its caption; leave judges out", pointer="/judges"
        )
    for name in create.rule.asked:
        if getattr(suite, name) is None:
            raise InvalidRequest(
                f"the suite {suite.name!r} has no judge {name!r}; leave it out of the judges, or choose a "
                "suite with one",
                pointer="/judges",
            )


async def try_judges(config: StressTestConfig, image: str, label: str, services: Services) -> None:
    """Ask each judge about an image as it is: what none of them can answer is refused before a run.

    Raises:
        UnknownModel: a judge does not see images.
        BackendError: a judge is down.
    """
    item = JudgeItem(
        original=image, edited=image, label=label, caption=label, edited_caption=label, change=False
    )
    # Its class alone: a request waits for this, and hundreds of images would take minutes.
    own = {label: images for label, images in config.references.items() if label == item.label}
    for name in config.request.rule.asked:
        references = own if name == "encoder" else {}
        request = JudgeRequest(judge=name, items=[item], references=references)
        (await services.scorer.judge(request)).outcomes[0].unwrap()
