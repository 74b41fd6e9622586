"""Words of failures: found where they are, and rarely where they are not."""

from __future__ import annotations

import numpy as np

from counterpose_core.bug_hunt.words import words_of_failures

WORDS = [f"word{number}" for number in range(30)]


def captions(n: int, generator: np.random.Generator, **shares: float) -> list[frozenset[str]]:
    """Captions that have each word with its share, 0.2 by default."""
    return [
        frozenset(word for word in [*WORDS, *shares] if generator.random() < shares.get(word, 0.2))
        for _ in range(n)
    ]


def test_a_word_of_most_failures_is_found_and_counted() -> None:
    generator = np.random.default_rng(0)
    failures = captions(40, generator, flowers=0.8)
    successes = captions(60, generator, flowers=0.1)
    (found,) = words_of_failures(failures, successes)
    assert found.word == "flowers"
    assert found.failures == sum("flowers" in each for each in failures)
    assert found.successes == sum("flowers" in each for each in successes)
    assert found.p_adjusted < 1e-6


def test_a_word_that_every_caption_has_says_nothing() -> None:
    generator = np.random.default_rng(1)
    assert words_of_failures(captions(40, generator, fly=1.0), captions(40, generator, fly=1.0)) == []


def test_a_word_of_successes_is_no_finding() -> None:
    generator = np.random.default_rng(2)
    assert words_of_failures(captions(40, generator, sea=0.1), captions(40, generator, sea=0.9)) == []


def test_alike_captions_rarely_give_a_word() -> None:
    generator = np.random.default_rng(3)
    false = sum(bool(words_of_failures(captions(25, generator), captions(25, generator))) for _ in range(200))
    assert false <= 18, "more than a level of 0.05 allows"


def test_words_that_are_too_rare_to_matter_do_not_weaken_the_others() -> None:
    failures = [frozenset({"flowers", f"once{number}"}) for number in range(8)]
    successes = [frozenset({f"also{number}"}) for number in range(8)]
    assert [found.word for found in words_of_failures(failures, successes)] == ["flowers"]


def test_no_captions_have_no_words() -> None:
    assert words_of_failures([], []) == []
