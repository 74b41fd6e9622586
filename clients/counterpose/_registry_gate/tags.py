"""The tags of a model version that say what its gate came to."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose._sync.gates import Gate
from counterpose_core.contract.gates import GateSummary

GATE = "counterpose.gate"
"""``running``, then one of `FINAL`."""
RUN, REPORT, VERDICT, SET = (f"counterpose.gate.{name}" for name in ("run", "report", "verdict", "set"))
CLASSIFIER = "counterpose.classifier"
"""Set by whoever registers a version, it says by which classifier the gateway reaches it."""
FINAL = frozenset({"passed", "failed", "inconclusive", "error"})
LONGEST = 5000


def is_final(tags: Mapping[str, str]) -> bool:
    """Whether a version with these tags has been through its gate."""
    return tags.get(GATE) in FINAL


def while_running(gate: Gate) -> dict[str, str]:
    """Return the tags of a version whose gate goes on."""
    return {RUN: gate.id, REPORT: gate.page, GATE: "running"}


def of_outcome(gate: Gate, summary: GateSummary) -> dict[str, str]:
    """Return the tags of a version whose gate has ended; the outcome is the last that is set."""
    ended = gate.run.state == "completed" and summary.outcome in FINAL
    return {
        RUN: gate.id,
        REPORT: gate.page,
        SET: summary.config.regression_set.digest,
        VERDICT: (summary.verdict or gate.run.state)[:LONGEST],
        GATE: str(summary.outcome) if ended else "error",
    }


def of_refusal(why: str) -> dict[str, str]:
    """Return the tags of a version that no gate can be made of."""
    return {VERDICT: why[:LONGEST], GATE: "error"}
