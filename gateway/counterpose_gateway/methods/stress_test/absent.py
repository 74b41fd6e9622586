"""What a stress test does without where the suite lacks models of the scorer, and what it then cannot do."""

from __future__ import annotations

from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.judges import CLIP_ALONE
from counterpose_core.contract.stress_test_thresholds import GateThresholds, TextThresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import Suite


def require_models(create: StressTestCreate, preset: EditorPreset, suite: Suite) -> None:
    """Refuse what needs a model that the suite's scorer lacks.

    Raises:
        InvalidRequest: the field names what.
    """
    if create.lance_r_edits_per_image and not (suite.scorer.clip and suite.scorer.masked_lm):
        what = "masked language model, or no CLIP, for LANCE-R"
        raise _lacks(suite, what, "lance_r_edits_per_image", "set it to 0")
    if not suite.scorer.sentence and (given := _given(create, TextThresholds)):
        what = f"sentence encoder, which {given!r} is a threshold of"
        raise _lacks(suite, what, f"thresholds/{given}", "leave it out")
    if suite.scorer.clip:
        return
    if given := _given(create, GateThresholds):
        raise _lacks(suite, f"CLIP, which {given!r} is a threshold of", f"thresholds/{given}", "leave it out")
    if create.near_duplicates is not None:
        raise _lacks(suite, "CLIP to find near-duplicates by", "near_duplicates", "leave it out")
    if create.judges != CLIP_ALONE and "clip" in create.judges:
        raise _lacks(suite, "judge 'clip'", "judges", "leave it out of the judges")
    if len(create.strength or preset.sweep) > 1:
        raise _lacks(suite, "CLIP to choose among several strengths by", "strength", "name one strength")


def _given(create: StressTestCreate, of: type[GateThresholds] | type[TextThresholds]) -> str | None:
    return next((name for name in create.thresholds.given() if name in of.model_fields), None)


def _lacks(suite: Suite, what: str, field: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"the suite {suite.name!r} has no {what}; {remedy}", pointer=f"/{field}")


def absent_measures(config: StressTestConfig) -> list[str]:
    """Say in sentences what was not measured of a run's edits, and what then decided about them."""
    if not config.edits_captions:
        return []
    lines: list[str] = []
    if not config.has_clip:
        lines.append(
            "The suite has no CLIP: no edit was judged by its likeness to its captions and to its source "
            f"image, nor checked for objectionable content{_deciding(config)}."
        )
    if not config.has_sentences and config.request.tested_types:
        lines.append(
            "The suite has no sentence encoder: words near the class were dropped only where they name it."
        )
    return lines


def _deciding(config: StressTestConfig) -> str:
    if faults := config.request.refused_faults:
        return f"; only these faults dropped one: {', '.join(faults)}"
    return "" if config.request.rule.asked else ", and nothing else decided which to keep"
