"""Bodies of judges: what each says of an edit, the rule by which it is kept, and how often a judge errs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import MAX_BATCH, CostedBatchResponse, RequestBody, ResponseBody, Text
from counterpose_core.contract.field_errors import FieldFault
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import BlobRef, Estimate, JudgeName

AskedJudge = Literal["encoder", "judge"]
CLIP_ALONE: list[JudgeName] = ["clip"]

Verdict = Literal["yes", "no", "unsure", "refused", "late", "malformed"]
VERDICTS: tuple[Verdict, ...] = ("yes", "no", "unsure", "refused", "late", "malformed")
"""All but the first two are no vote: the judge cannot tell, or refuses, or gave no answer in time or form."""
Reply = Literal["yes", "no", "unsure"]
Decision = Literal["kept", "dropped", "undecided"]

MOST_REFERENCES, MOST_OF_CLASS = 256, 8
"""Images that stand for the classes of a run, in all and of each."""


class Judgement(ResponseBody):
    """What a judge says of an edit."""

    verdict: Verdict
    """`yes` if the edit is right, `no` if not; with anything else the judge has no vote."""
    replies: dict[str, Reply] = {}
    """Replies to the closed questions, by question: `change`, `object`, `rest`."""
    score: float | None = None
    """Of the encoder: cosine with the image's own class less that with the nearest other one; null for
    others."""
    detail: str = ""
    """Why the verdict is not `yes`, and what it was reached without, or empty."""


def is_clip_alone(judges: Sequence[Any]) -> bool:
    """Whether a request's judges are those of before there were others: it is stored as it was then."""
    return list(judges) == CLIP_ALONE


@dataclass(frozen=True)
class Rule:
    """The ``judges`` of a run, those of them that vote, and how many of these must say yes."""

    judges: tuple[JudgeName, ...]
    voters: tuple[JudgeName, ...]
    keep: int

    @classmethod
    def of(
        cls, judges: Sequence[JudgeName], keep: int | None = None, without: JudgeName | None = None
    ) -> Self:
        """Return the rule; without ``keep``, all that vote must say yes.

        Raises:
            FieldFault: the judge to do without is none of them, or more are to say yes than vote.
        """
        named = ", ".join(map(repr, judges))
        if without is not None and without not in judges:
            raise FieldFault(
                f"the judge {without!r} is none of the run's, which are {named}; leave it out",
                "thresholds",
                "without",
            )
        voters = tuple(name for name in judges if name != without)
        wanted = max(1, len(voters)) if keep is None else keep
        if wanted > len(voters):
            raise FieldFault(
                f"{wanted} of the judges are to say yes, and only {len(voters)} of {named} vote; lower keep, "
                "or name more judges",
                "thresholds",
                "without" if keep is None else "keep",
            )
        return cls(tuple(judges), voters, wanted)

    @property
    def asked(self) -> list[AskedJudge]:
        """The judges that are asked beside CLIP, which scores every edit."""
        return [name for name in self.judges if name != "clip"]

    def decide(self, judgements: Mapping[str, Judgement]) -> Decision:
        """Keep or drop an edit; it is undecided if that hangs on judges that have no vote."""
        votes = Counter(judgements[name].verdict for name in self.voters if name in judgements)
        if votes["yes"] >= self.keep:
            return "kept"
        return "dropped" if len(self.voters) - votes["no"] < self.keep else "undecided"

    def __str__(self) -> str:
        shadow = "".join(f", {name} without a vote" for name in self.judges if name not in self.voters)
        return f"{self.keep} of {len(self.voters)} say yes ({', '.join(self.voters)}{shadow})"


class JudgeItem(RequestBody):
    """An edit to judge."""

    original: BlobRef
    """SHA-256 of the image before the edit."""
    edited: BlobRef
    """SHA-256 of the image after the edit."""
    label: Text
    """Class of the object, which must still be there."""
    caption: Text
    """Caption of the original image."""
    edited_caption: Text
    """Caption that the edited image follows."""
    change: bool = True
    """Whether a change must be seen; the words of a placebo keep the meaning."""


class JudgeRequest(RequestBody):
    """``POST /v1/judge``: edits that one of a suite's judges is to judge."""

    judge: AskedJudge
    """The judge to ask."""
    items: list[JudgeItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The edits."""
    references: dict[str, list[BlobRef]] = Field(default={}, max_length=MOST_REFERENCES)
    """For the encoder, images that stand for each class."""


class JudgeResponse(CostedBatchResponse[Judgement]):
    """Answer to `JudgeRequest`."""


class Calibration(RequestBody):
    """How a judge's verdicts agreed with what people, or an oracle, said of the same edits."""

    against: str = Field(min_length=1, max_length=200)
    """Whose word the verdicts were held against, such as `ratings of two people`."""
    right_kept: int = Field(ge=0)
    """Edits that are right, and that the judge called so."""
    wrong_kept: int = Field(ge=0)
    """Edits that are wrong, and that the judge called right."""
    wrong_dropped: int = Field(ge=0)
    """Edits that are wrong, and that the judge called so."""
    right_dropped: int = Field(ge=0)
    """Edits that are right, and that the judge called wrong."""
    without_vote: int = Field(default=0, ge=0)
    """Edits of which the judge said neither."""
    right_without_vote: int = Field(default=0, ge=0)
    """Those of them that are right."""
    model: str | None = Field(default=None, exclude_if=lambda model: model is None)
    """The model that judged, as `model at host`, or `at host` where it has no name: a suite with another one
    is refused. Null for CLIP, and where nobody recorded it."""
    gate: GateThresholds | None = Field(default=None, exclude_if=lambda gate: gate is None)
    """Of CLIP, the thresholds by which it judged: by others it has other verdicts. Null for other judges."""

    @classmethod
    def of(
        cls,
        judged: Iterable[tuple[str, bool]],
        against: str,
        gate: GateThresholds | None = None,
        model: str | None = None,
    ) -> Self:
        """Count a judge's verdicts, each with whether the edit is right by the word of ``against``."""
        counts = Counter(judged)
        votes = {
            "right_kept": counts["yes", True],
            "wrong_kept": counts["yes", False],
            "wrong_dropped": counts["no", False],
            "right_dropped": counts["no", True],
        }
        right = sum(number for (_, is_right), number in counts.items() if is_right)
        return cls(
            against=against,
            without_vote=counts.total() - sum(votes.values()),
            right_without_vote=right - counts["yes", True] - counts["no", True],
            gate=gate,
            model=model,
            **votes,
        )

    @model_validator(mode="after")
    def _holds_its_part(self) -> Self:
        if self.right_without_vote > self.without_vote:
            raise ValueError(
                "right_without_vote is a part of without_vote, and is larger; correct one of them"
            )
        return self


INDEPENDENT = " (intervals take edits as independent, also those of one source)"


class CalibrationFigures(ResponseBody):
    """A calibration as shares, with intervals that take edits as independent, also those of one source."""

    against: str
    """Whose word the verdicts were held against."""
    precision: Estimate
    """Of the edits that the judge calls right, the share that is."""
    recall: Estimate
    """Of the edits that are right, the share that the judge calls so; one without a vote is not called so."""
    errors: Estimate
    """Share of its votes that are wrong."""
    without_vote: int
    """Edits of which it said neither; recall alone has those of them that are right."""
    unreliable: bool
    """Whether more than a tenth of its votes are shown to be wrong, by the lower end of its interval."""

    def __str__(self) -> str:
        warning = "; more than a tenth of its votes are wrong: do not believe it" if self.unreliable else ""
        return (
            f"precision {self.precision}, recall {self.recall}, wrong votes {self.errors}, without a "
            f"vote {self.without_vote}, against {self.against}{INDEPENDENT}{warning}"
        )


class JudgeRow(ResponseBody):
    """The verdicts of one judge on the edits of a run."""

    votes: bool
    """Whether its votes count."""
    verdicts: dict[Verdict, int]
    """Number of edits with each verdict, where there are any."""
    yes: Estimate
    """Of its votes, the share that is `yes`."""
    calibration: CalibrationFigures | None = None
    """How far it can be believed, or null where it is not calibrated."""
    at_other_thresholds: bool = Field(default=False, exclude_if=lambda other: not other)
    """Whether it is calibrated, but by other thresholds than those of these verdicts."""

    @property
    def belief(self) -> str:
        """How far it can be believed, in words."""
        without = f"not calibrated{' at these thresholds' * self.at_other_thresholds}"
        return without if self.calibration is None else str(self.calibration)


class Disagreement(ResponseBody):
    """An edit that one judge calls right and another wrong."""

    item: str
    """Id of the item."""
    verdicts: dict[str, Verdict]
    """The verdicts by judge."""
    kept: bool
    """Whether the run kept it."""


class JudgesSummary(ResponseBody):
    """What the judges of a run said of the screen's edits."""

    rule: str
    """The rule by which edits are kept, in words."""
    rows: dict[str, JudgeRow]
    """The verdicts of each judge."""
    judged: int
    """Number of edits that were judged."""
    disagreed: Estimate
    """Share of the edits of which one judge says `yes` and another `no`."""
    disagreements: list[Disagreement]
    """The first of them, in planned order, at most 100."""

    @property
    def unreliable(self) -> list[str]:
        """The judges whose votes count, and which err too often to be believed."""
        return [
            name
            for name, row in self.rows.items()
            if row.votes and row.calibration is not None and row.calibration.unreliable
        ]

    @property
    def lines(self) -> list[str]:
        """The rule, and each judge with its verdicts and how far it can be believed, a sentence each."""
        rows = [
            f"{name}: {', '.join(f'{number} {verdict}' for verdict, number in row.verdicts.items())}; "
            f"{row.belief}."
            for name, row in self.rows.items()
        ]
        return [f"Kept: {self.rule}. The judges disagree on {self.disagreed} of the edits.", *rows]


def calibrations(
    judgements: Mapping[str, Mapping[str, Judgement]],
    labels: Mapping[str, bool],
    against: str,
    gate: GateThresholds,
    models: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Calibration]:
    """Hold the verdicts of each judge against labels.

    Args:
        judgements: what each judge says of an item, by the item.
        labels: whether an item's edit is right.
        against: whose word that is.
        gate: the thresholds by which CLIP judged.
        models: the models of the other judges, as the run recorded them.

    Raises:
        InvalidRequest: there are no labels, or no judge has said anything of one of the items.
    """
    if unknown := [item for item in labels if not judgements.get(item)]:
        raise InvalidRequest(
            f"no judge has said anything of the item {unknown[0]!r}; label edits of a run that asked judges"
        )
    if not labels:
        raise InvalidRequest("there is no label; say of some edits whether they are right")
    judged: dict[str, list[tuple[str, bool]]] = {}
    for item, right in labels.items():
        for name, said in judgements[item].items():
            judged.setdefault(name, []).append((said.verdict, right))
    return {
        name: Calibration.of(verdicts, against, gate if name == "clip" else None, models.get(name))
        for name, verdicts in judged.items()
    }
