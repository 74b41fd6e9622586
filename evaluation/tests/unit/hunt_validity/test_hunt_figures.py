"""The figures of a validation of hunts: what is counted among what, and when an aim is reached."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
import scipy

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.suite import load_suite
from counterpose_core.types import Estimate
from evaluation.hunt_validity.figures import (
    EFFECT,
    aims_of,
    by_attribute,
    exceeds,
    fates_of,
    figures_of,
    generator_gap,
)
from evaluation.hunt_validity.report import BugReport, ClaimReport, Fate, HuntReport, HuntValidity
from evaluation.paths import RESULTS, ROOT

SUITES = ROOT / "services/counterpose_core/suites"
SCHEMA = RESULTS / "hunt-validity.schema.json"


def about(value: float, n: int = 32) -> Estimate:
    return Estimate(estimate=value, low=max(0.0, value - 0.1), high=min(1.0, value + 0.1), n=n)


def a_bug(true: float = 0.9, fate: Fate = "found", attribute: str = "weather") -> BugReport:
    return BugReport(
        classifier="taught", label="fly", bug="fly-night", attribute=attribute, value="night", strength=0.75,
        true_rate=about(true), label_rate=about(0.1), fate=fate, alone=True if fate == "found" else None,
    )  # fmt: skip


def a_claim(classifier: str = "taught", *, covered: bool = True, is_true: bool = True) -> ClaimReport:
    return ClaimReport(
        classifier=classifier, label="fly", is_control=False, description="a fly at night", source="words",
        held_out=about(0.8), discovery=about(0.9), true_rate=about(0.85), label_rate=about(0.1),
        words_rate=about(0.6), covered=covered, words_covered=False, hidden=0, missed_by=None,
        difference=-0.05,
        names_bug=is_true, surely_above=is_true, is_true=is_true,
    )  # fmt: skip


def a_hunt(classifier: str = "taught", findings: int = 0) -> HuntReport:
    return HuntReport(
        classifier=classifier, label="fly", bugs=[], images=600, descriptions=4, findings=findings,
        baseline_failures=about(0.01),
    )  # fmt: skip


@pytest.mark.paper("BUGS-X-caption")
def test_recall_counts_strong_bugs_and_precision_what_was_proven() -> None:
    bugs = [a_bug(), a_bug(fate="not-described"), a_bug(true=0.2, fate="not-seen")]
    claims = [a_claim(), a_claim(covered=False), a_claim(is_true=False)]
    made = figures_of(bugs, claims, [a_hunt()], set())
    shares = (made.recall_of_strong, made.recall, made.precision, made.covered)
    assert [(each.estimate, each.n) for each in shares] == [(0.5, 2), (1 / 3, 3), (2 / 3, 3), (0.5, 2)]
    assert made.difference.estimate == -0.05
    assert fates_of(bugs) == {"found": 1, "not-described": 1}


def test_hunts_of_controls_alone_count_as_alarms() -> None:
    hunts = [a_hunt("taught", 1), a_hunt("control", 1), *[a_hunt("control") for _ in range(39)]]
    made = figures_of([], [a_claim("control")], hunts, {"control"})
    assert (made.control_hunts_with_a_finding.estimate, made.control_hunts_with_a_finding.n) == (1 / 40, 40)
    assert made.control_hunts_with_a_false_finding.estimate == 0.0
    # Nothing tells how the generator's images or a user's compare with it.
    assert [aim.met for aim in aims_of(made)] == [None, True, True, None, None]
    many = [a_hunt("control", 1)] * 20 + [a_hunt("control")] * 20
    assert aims_of(figures_of([], [], many, {"control"}))[2].met is False


def test_a_true_finding_exceeds_the_label_as_drawn_by_a_stated_effect() -> None:
    close_up = Estimate(estimate=0.04, low=0.03, high=0.05, n=1000)
    plain, drawn = (Estimate(estimate=rate, low=rate, high=rate, n=1000) for rate in (0.002, 0.06))
    # Surely above a lone photo of a boat, which no boat of the generator is, and of no size at all.
    assert exceeds(close_up, plain, 0.0)
    assert not exceeds(close_up, drawn, EFFECT)
    assert exceeds(Estimate(estimate=0.2, low=0.17, high=0.23, n=1000), drawn, EFFECT)


def test_coverage_counts_every_finding_by_what_was_measured_of_it() -> None:
    measured = {"user_rate": about(0.5, 1000), "user_covered": False, "drawn_covered": True, "at_least": 0.4}
    claims = [a_claim(), a_claim().model_copy(update=measured)]
    claims.append(a_claim(is_true=False).model_copy(update={**measured, "at_least": 0.6}))
    made = figures_of([], claims, [], set())
    shares = (made.user_covered, made.drawn_covered, made.at_least_holds)
    assert [(each.estimate, each.n) for each in shares] == [(0.0, 2), (1.0, 2), (0.5, 2)]


def test_the_generator_s_gap_is_what_sampling_does_not_explain() -> None:
    generator = np.random.default_rng(2)
    users = generator.uniform(0.2, 0.8, 400)

    def drawn(gap: float) -> list[tuple[Estimate, Estimate]]:
        shifted = scipy.special.expit(scipy.special.logit(users) + generator.normal(0.0, gap, 400))
        pairs = zip(generator.binomial(32, shifted), generator.binomial(1000, users), strict=True)
        return [(proportion(int(few), 32), proportion(int(many), 1000)) for few, many in pairs]

    assert generator_gap(drawn(0.0)) == pytest.approx(0.0, abs=0.15)
    assert generator_gap(drawn(1.2)) == pytest.approx(1.2, abs=0.2)
    assert generator_gap(drawn(1.2)[:1]) is None


def test_the_suite_states_the_gap_of_the_rates_that_its_comment_names() -> None:
    measured = json.loads((RESULTS / "generator-gap.json").read_text(encoding="utf-8"))
    rates = [(proportion(few, held), proportion(many, n)) for few, held, many, n in measured["rates"]]
    gap, stated = generator_gap(rates), load_suite("miniature").generator_gap
    assert gap is not None
    assert stated == round(gap, 1)
    comment = (SUITES / "miniature.toml").read_text(encoding="utf-8").replace("\n# ", " ")
    assert f"from the {len(rates)} findings of stretch {measured['stretch']} of `make" in comment


def test_recall_is_told_by_what_the_circumstance_is() -> None:
    found = by_attribute([a_bug(), a_bug(attribute="colour", fate="not-seen"), a_bug(true=0.1)])
    assert {name: (each.estimate, each.n) for name, each in found.items()} == {
        "colour": (0.0, 1),
        "weather": (1.0, 1),
    }


def test_the_schema_describes_the_written_file() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema == HuntValidity.model_json_schema(mode="serialization")
    written = json.loads((RESULTS / "hunt-validity.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(written)
