"""The report's sections on realism and perplexity: figures, how to read them, and missing values."""

from __future__ import annotations

import re
from html import unescape

from counterpose_core.contract.runs import Item
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.records import AFTER, recorded
from fakes.results import Ledgered, fake_config


def section(items: list[Item], title: str, following: str) -> str:
    """The words between two headings."""
    run = recorded_run(fake_config(), items)
    html = render(summarize(run, items), run, items, Ledgered().world.store.get)
    found = re.search(f"<h3>{title}</h3>(.*?)<h3>{following}</h3>", html, flags=re.DOTALL)
    assert found is not None
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[1])).split())


def test_the_report_shows_realism_with_floor_intervals_and_explanation() -> None:
    text = section(recorded(60), "Realism", "Perplexity")
    assert "smaller is more real" in text
    assert "against the 60 originals" in text
    assert re.search(r"the floor [+−]?0\.\d{4} [+−]?0\.\d{4} to [+−]?0\.\d{4}", text)
    assert re.search(r"counterfactuals \+\d\.\d{4} .* 70 60", text)
    assert "counterfactuals: background" in text
    assert "Each feature vector has 4 numbers and comes from clip@1" in text


def test_a_missing_distance_gives_its_reason() -> None:
    text = section(recorded(30), "Realism", "Perplexity")
    assert "the Fréchet distance needs 20 images in each set (5 x 4 features), not 15" in text
    assert "the kernel distance needs 20 sources in each set, not 15" in text


def test_the_report_shows_perplexity_with_language_model_and_explanation() -> None:
    text = section(recorded(40), "Perplexity", "Yield")
    assert "the closer it is to the originals', the more natural" in text
    assert re.search(r"original and its reconstruction, which has the same caption \d+\.\d \d+\.\d to", text)
    assert "Under llama@1 , the base of the model that proposes edits" in text
    assert "a perplexity needs 20 captions, not 12" in section(recorded(12), "Perplexity", "Yield")


def test_a_report_without_features_says_that_nothing_was_measured() -> None:
    ledgered = Ledgered()
    ledgered.stress(["a"], {"background": AFTER})
    assert "recorded no features" in section(ledgered.items, "Realism", "Perplexity")
    assert "recorded no likelihoods" in section(ledgered.items, "Perplexity", "Yield")
