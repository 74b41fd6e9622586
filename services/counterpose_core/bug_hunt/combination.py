"""Sentences combined greedily to the likeliest caption of a cluster of images (Wiles et al., section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.bug_hunt.parts import phrases, sentences, spoken, with_phrase, written
from counterpose_core.errors import InvalidRequest

MOST_SENTENCES = 48
"""Sentences of a cluster that are weighed, the most frequent ones: each costs a likelihood an image."""
MOST_IMAGES = 16
"""Images of a cluster over which the likelihood is taken."""


@dataclass(frozen=True)
class Extension:
    """A sentence to add, by its place, and the log-likelihood a token of the caption that has it."""

    place: int
    mean: float


def continuation(caption: str, prompt: str) -> str | None:
    """Return what a caption says after the prompt that it goes on from, or None if it does not."""
    said = " ".join(caption.split())
    return said[len(prompt) :].strip() if said.casefold().startswith(prompt.casefold()) else None


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a caption's continuation, or the phrases of a single one."""
    found = sentences(text)
    return found if len(found) > 1 else [written(each) for each in phrases(spoken(text))]


def pooled(continuations: Iterable[str]) -> list[str]:
    """Return the sentences of a cluster, the most frequent first and each once, at most `MOST_SENTENCES`."""
    counted = Counter(sentence for text in continuations for sentence in dict.fromkeys(sentences_of(text)))
    ordered = sorted(counted, key=lambda sentence: (-counted[sentence], sentence))
    return ordered[:MOST_SENTENCES]


def joined(chosen: Sequence[str]) -> str:
    """Return the chosen sentences as the text that goes on from the prompt."""
    return " ".join(chosen)


def combined_prompt(prompt: str, chosen: Sequence[str]) -> str:
    """Return the baseline's prompt with the chosen sentences, or with the chosen phrases before its end."""
    is_phrase = not any(each.endswith((".", "!", "?")) for each in chosen)
    return with_phrase(prompt, joined(chosen)) if is_phrase else f"{prompt} {joined(chosen)}"


def best_extension(totals: NDArray[np.float64], tokens: NDArray[np.float64]) -> Extension:
    """Return the extension of the greatest product of likelihoods over the images, a token.

    The paper's product falls with each word, so that no second sentence would ever follow; the mean over
    tokens is comparable between lengths.

    Args:
        totals: log-likelihood of each extended caption given each image (images, texts), in nats, NaN where
            it could not be computed.
        tokens: number of tokens of each extended caption (texts,).

    Raises:
        InvalidRequest: no image has a likelihood of any text.
    """
    # A text that no image could be asked about is left out; then an image that lacks another one.
    texts = ~np.isnan(totals).all(axis=0)
    images = ~np.isnan(totals[:, texts]).any(axis=1)
    if not texts.any() or not images.any():
        raise InvalidRequest("no caption could be weighed against the images")
    means = np.full(len(tokens), -np.inf)
    means[texts] = totals[np.ix_(images, texts)].mean(axis=0) / tokens[texts]
    place = int(np.argmax(means))
    return Extension(place, float(means[place]))
