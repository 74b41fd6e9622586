"""Realism and perplexity in a summary, computed from recorded features and likelihoods."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.records import AFTER, WIDTH, recorded
from fakes.results import Ledgered, fake_config


def summary(items: list[Item]) -> StressTestSummary:
    return summarize(recorded_run(fake_config(), items), items)


@pytest.mark.paper("LANCE-S4.1-fid")
def test_reconstructions_are_at_the_floor_and_edits_above_it() -> None:
    made = summary(recorded(60)).realism
    assert made is not None
    assert (made.network, made.width, made.n_originals) == ("clip@1", WIDTH, 60)
    same, edited = (made.rows[row].kernel for row in ("reconstruction", "counterfactual"))
    floor = made.floor.kernel
    assert floor is not None
    assert same is not None
    assert edited is not None
    assert (floor.low or 0.0) < 0.0 < (floor.high or 0.0)
    assert (same.low or 0.0) < 0.0 < (same.high or 0.0)
    assert (edited.low or 0.0) > (same.high or 0.0)
    assert (made.rows["counterfactual"].n_images, made.rows["counterfactual"].n_sources) == (70, 60)
    assert edited.n == 60


@pytest.mark.paper("LANCE-S4.1-fid")
def test_unit_features_are_scaled_by_the_square_root_of_their_width() -> None:
    """A known answer: the Fréchet distance of unit features grows by the width."""
    items = recorded(60)
    made = summary(items).realism
    assert made is not None
    results = [item.result for item in items if item.result is not None]
    real = np.array([one.source_features.numbers() for one in results if one.source_features])
    again = np.array(
        [
            item.result.image_features.numbers()
            for item in items
            if item.kind == "reconstruction" and item.result and item.result.image_features
        ]
    )
    shift = real.mean(0) - again.mean(0)
    first, second = np.cov(real, rowvar=False), np.cov(again, rowvar=False)
    roots = np.sqrt(np.linalg.eigvals(first @ second).real)
    expected = WIDTH * (shift @ shift + np.trace(first + second) - 2.0 * roots.sum())
    assert made.rows["reconstruction"].frechet == pytest.approx(expected)


@pytest.mark.paper("LANCE-S4.1-fid")
def test_too_few_images_give_a_reason_instead_of_a_frechet_distance() -> None:
    made = summary(recorded(30)).realism
    assert made is not None
    assert made.rows["reconstruction"].frechet is not None
    assert made.floor.frechet is None
    assert "5 x 4 features" in made.floor.no_frechet
    assert made.floor.kernel is None
    assert "20 sources" in made.floor.no_kernel


def test_only_edit_types_with_enough_sources_are_listed_separately() -> None:
    made = summary(recorded(60)).realism
    assert made is not None
    assert set(made.edit_types) == {"background"}


def test_features_of_other_weights_are_ignored() -> None:
    other = [item.model_copy(update={"id": f"{item.id}b"}) for item in recorded(30, clip="clip@2")]
    made = summary([*recorded(40), *other]).realism
    assert made is not None
    assert (made.network, made.n_originals) == ("clip@1", 40)


@pytest.mark.paper("LANCE-S4.1-perplexity")
def test_perplexity_rises_with_less_likely_captions() -> None:
    made = summary(recorded(40)).perplexity
    assert made is not None
    assert made.language_model == "llama@1"
    assert list(made.rows) == ["original", "placebo", "counterfactual"]
    told = [row.perplexity.estimate or 0.0 for row in made.rows.values() if row.perplexity]
    assert told == sorted(set(told))
    original = made.rows["original"]
    nats = sum(2.0 * (8 + source % 3) for source in range(40))
    tokens = sum(6 + source % 3 for source in range(40))
    assert original.perplexity is not None
    assert original.perplexity.estimate == pytest.approx(np.exp(nats / tokens))
    assert original.perplexity.n == 40
    assert (original.tokens, original.n_captions) == (tokens, 40)


def test_captions_of_one_source_count_as_one_entry() -> None:
    row = summary(recorded(40)).perplexity
    assert row is not None
    edited = row.rows["counterfactual"]
    assert edited.n_captions == 50
    assert edited.perplexity is not None
    assert edited.perplexity.n == 40


def test_too_few_captions_give_a_reason_instead_of_a_perplexity() -> None:
    made = summary(recorded(12)).perplexity
    assert made is not None
    assert made.rows["original"].perplexity is None
    assert "20 captions" in made.rows["original"].no_perplexity


def test_figures_of_two_language_models_are_not_mixed() -> None:
    made = summary([*recorded(40), *recorded(30, nats=-9.0, language_model="other@1")]).perplexity
    assert made is not None
    assert (made.language_model, made.rows["original"].n_captions) == ("llama@1", 40)


def test_a_run_without_recorded_features_can_still_be_summarised() -> None:
    ledgered = Ledgered()
    ledgered.stress(["a", "b"], {"background": AFTER})
    made = summary(ledgered.items)
    assert made.realism is None
    assert made.perplexity is None
