"""What the rule k of n keeps, and how right that is, beside CLIP alone at the same yield."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.judges import Calibration, Judgement, Rule, Verdict
from counterpose_core.stress_test.filters import GATE_REASONS
from counterpose_core.stress_test.judges import calibration_figures
from counterpose_core.types import JudgeName
from evaluation.judges.edits import Row
from evaluation.validity.measures import clustered_share, resampled

Verdicts = Sequence[Verdict]
Flags = NDArray[np.bool_]

SIMULATED = "simulation of the rule"
"""Heads the rows whose judges are scripted: the truth, turned round at a stated rate."""
RATES = (0.05, 0.1, 0.2)
HARD_SHARE = 1 / 3
"""Of the images, those with the least contrast, on which alone the judges of one arm err."""
LABELS = (100, 200)
CALIBRATIONS = 1000


@dataclass(frozen=True)
class Arm:
    """A rule over CLIP and ``others``, at most two, by what these say of each edit."""

    name: str
    keep: int
    others: Sequence[Verdicts] = ()

    @property
    def rule(self) -> Rule:
        """The product's rule, whatever the others are called in it."""
        names: tuple[JudgeName, ...] = ("clip", "judge", "encoder")
        return Rule.of(names[: len(self.others) + 1], self.keep)

    def kept(self, rows: Sequence[Row]) -> Flags:
        """Which edits the rule keeps."""
        rule = self.rule
        votes = zip(map(_clip, rows), *self.others, strict=True)
        said: Iterator[dict[str, Judgement]] = (
            {name: Judgement(verdict=verdict) for name, verdict in zip(rule.judges, each, strict=True)}
            for each in votes
        )
        return np.array([rule.decide(judgements) == "kept" for judgements in said], dtype=np.bool_)


def _clip(row: Row) -> Verdict:
    return "yes" if row.failed is None else "no"


def scripted(
    rows: Sequence[Row], rate: float, generator: np.random.Generator, *, hard: bool = False
) -> Verdicts:
    """Return verdicts that are wrong at a rate, of all edits or only of those with the least contrast."""
    rates = np.full(len(rows), rate)
    if hard:
        contrast = np.array([row.contrast for row in rows])
        rates = np.where(contrast <= np.quantile(contrast, HARD_SHARE), rate / HARD_SHARE, 0.0)
    errs = generator.random(len(rows)) < rates
    return ["yes" if row.right != err else "no" for row, err in zip(rows, errs.tolist(), strict=True)]


def best_by_clip(rows: Sequence[Row], number: int) -> Flags:
    """Return as many edits as CLIP alone would keep: those that get furthest through its gate."""
    depth = [len(GATE_REASONS) if row.failed is None else GATE_REASONS.index(row.failed) for row in rows]
    order = sorted(range(len(rows)), key=lambda at: (-depth[at], -rows[at].direction))
    flags = np.zeros(len(rows), dtype=np.bool_)
    flags[order[:number]] = True
    return flags


def compared(rows: Sequence[Row], arm: Arm, seed: int) -> dict[str, Any]:
    """Return precision and recall of an arm, and CLIP's at the same yield, with the paired difference."""
    generator = np.random.default_rng(seed)
    kept, right = arm.kept(rows), np.array([row.right for row in rows])
    alone, sources = best_by_clip(rows, int(kept.sum())), [str(row.source) for row in rows]

    def share(of: Flags, among: Flags) -> dict[str, Any]:
        pairs = [(sources[at], bool(of[at])) for at in np.flatnonzero(among).tolist()]
        return clustered_share(pairs, generator).model_dump()

    def gain(at: NDArray[np.intp]) -> float | None:
        chosen = [flags[at] for flags in (kept, alone)]
        if not all(flags.any() for flags in chosen):
            return None
        ours, theirs = (float(right[at][flags].mean()) for flags in chosen)
        return ours - theirs

    return {
        "arm": arm.name,
        "rule": f"{arm.keep} of {len(arm.rule.voters)}",
        "kept": int(kept.sum()),
        "yield": float(kept.mean()),
        "precision": share(right, kept),
        "recall": share(kept, right),
        "clip_precision": share(right, alone),
        "gain": resampled(gain, sources, generator).model_dump(),
    }


def noticed(rows: Sequence[Row], rate: float, labels: int, seed: int) -> dict[str, Any]:
    """Return how many of a thousand calibrations call a scripted judge unreliable."""
    generator = np.random.default_rng([seed, labels])
    called = 0
    for _ in range(CALIBRATIONS):
        chosen = [rows[at] for at in generator.integers(len(rows), size=labels).tolist()]
        verdicts = scripted(chosen, rate, generator)
        judged = [(verdict, row.right) for verdict, row in zip(verdicts, chosen, strict=True)]
        called += calibration_figures(Calibration.of(judged, SIMULATED)).unreliable
    share = clustered_share(((str(at), at < called) for at in range(CALIBRATIONS)), generator)
    return {"rate": rate, "labels": labels, "unreliable": share.model_dump()}


def figures(rows: Sequence[Row], seed: int) -> dict[str, Any]:
    """Return every figure; each judge is calibrated on the edits of one half of the scenes."""
    generator = np.random.default_rng(seed)
    half = [row for row in rows if row.source % 2 == 0]
    test = [row for row in rows if row.source % 2 == 1]
    told = [row.captioner for row in test]
    near = [row.encoder for row in test]
    real = [Arm("CLIP and a captioner", keep, [told]) for keep in (1, 2)]
    real += [Arm("CLIP and an encoder", 2, [near])]
    real += [Arm("CLIP, a captioner and an encoder", keep, [told, near]) for keep in (2, 3)]
    simulated = list[Arm]()
    for rate in RATES:
        pair = [scripted(test, rate, generator) for _ in range(2)]
        simulated += [Arm(f"two judges that err in {rate:.0%}", keep, pair) for keep in (2, 3)]
    pair = [scripted(test, 0.1, generator, hard=True) for _ in range(2)]
    simulated += [Arm("two judges that err in 10%, on the same third", keep, pair) for keep in (2, 3)]
    liar = scripted(test, 0.2, generator)
    simulated.append(Arm("a captioner and a judge that errs in 20%", 2, [told, liar]))
    judges = {
        "clip": [_clip(row) for row in half],
        "captioner": [row.captioner for row in half],
        "encoder": [row.encoder for row in half],
    }
    return {
        "edits": len(test),
        "scenes": len({row.source for row in test}),
        "faults": _faults(
            test, judges={"clip": [_clip(row) for row in test], "captioner": told, "encoder": near}
        ),
        "clip alone": compared(test, Arm("CLIP alone", 1), seed),
        "judges": [compared(test, arm, seed) for arm in real],
        SIMULATED: [compared(test, arm, seed) for arm in simulated],
        "calibrations on the other half": {
            name: calibration_figures(
                Calibration.of(
                    [(said, row.right) for said, row in zip(verdicts, half, strict=True)], "rendered truth"
                )
            ).model_dump()
            for name, verdicts in judges.items()
        },
        f"{SIMULATED}: calibrations": [
            noticed(half, rate, labels, seed) for rate in (0.0, *RATES) for labels in LABELS
        ],
    }


def _faults(rows: Sequence[Row], judges: Mapping[str, Verdicts]) -> dict[str, Any]:
    """How many edits have each fault, and how many of these each judge calls right."""
    return {
        fault: {"n": sum(row.fault == fault for row in rows)}
        | {
            name: sum(row.fault == fault and said == "yes" for row, said in zip(rows, verdicts, strict=True))
            for name, verdicts in judges.items()
        }
        for fault in dict.fromkeys(sorted(row.fault for row in rows))
    }
