"""Alignment of an edited caption's words and tokens with those of the original caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.errors import InvalidRequest

GAP_COST, SUBSTITUTION_COST = 2, 3
"""A substitution costs less than a removal and an addition, so that words replace words; keeping one word
more outweighs three substitutions."""


@dataclass(frozen=True)
class TokenizedPrompt:
    """The tokens of a caption, without padding.

    ``words`` has the index of the word that each token belongs to, None for the begin and end marks.
    """

    ids: tuple[int, ...]
    words: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.words):
            raise InvalidRequest(
                f"the prompt has {len(self.ids)} tokens but {len(self.words)} word indices; give one each"
            )

    def spans(self) -> list[tuple[int, ...]]:
        """Return the token positions of each word, in order."""
        places: dict[int, list[int]] = {}
        for position, word in enumerate(self.words):
            if word is not None:
                places.setdefault(word, []).append(position)
        return [tuple(places[word]) for word in sorted(places)]

    @property
    def tail(self) -> int:
        """Position of the end mark: the first token after the last word, followed by padding."""
        # An empty caption has no word: its end mark follows the begin mark.
        return 1 + max((i for i, word in enumerate(self.words) if word is not None), default=0)


@dataclass(frozen=True)
class WordPair:
    """Token positions of a word in both captions; one side is empty if the word was added or removed."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    same: bool


@dataclass(frozen=True)
class Alignment:
    """How two captions correspond, word by word."""

    source: TokenizedPrompt
    target: TokenizedPrompt
    pairs: tuple[WordPair, ...]

    @property
    def removed(self) -> tuple[int, ...]:
        """Token positions, in the original, of words that were replaced or removed."""
        return tuple(position for pair in self.pairs if not pair.same for position in pair.source)

    @property
    def added(self) -> tuple[int, ...]:
        """Token positions, in the edited caption, of words that are new."""
        return tuple(position for pair in self.pairs if not pair.same for position in pair.target)

    @property
    def repeated(self) -> tuple[int, ...]:
        """Token positions, in the edited caption, of every occurrence of the words that are new.

        The added words and any equal words that both captions have (`get_word_inds` of the released code).
        """
        new = {self._word(pair) for pair in self.pairs if not pair.same}
        return tuple(place for pair in self.pairs if self._word(pair) in new for place in pair.target)

    def _word(self, pair: WordPair) -> tuple[int, ...]:
        """Token ids of the pair's word in the edited caption."""
        return tuple(self.target.ids[place] for place in pair.target)

    @property
    def is_replacement(self) -> bool:
        """Whether every word stands for exactly one word of the other caption."""
        return all(pair.source and pair.target for pair in self.pairs)


def align(source: TokenizedPrompt, target: TokenizedPrompt) -> Alignment:
    """Align the words of two captions at least cost (Needleman and Wunsch 1970).

    Words are equal if all their tokens are.
    """
    here, there = source.spans(), target.spans()
    here_ids = [tuple(source.ids[i] for i in span) for span in here]
    there_ids = [tuple(target.ids[i] for i in span) for span in there]
    costs = _costs(here_ids, there_ids)
    pairs: list[WordPair] = []
    i, j = len(here), len(there)
    while i or j:
        same = i > 0 and j > 0 and here_ids[i - 1] == there_ids[j - 1]
        # Of two alignments with equal cost the one that pairs words is taken: only pairs have a map to carry.
        if i and j and costs[i][j] == costs[i - 1][j - 1] + (0 if same else SUBSTITUTION_COST):
            i, j = i - 1, j - 1
            pairs.append(WordPair(here[i], there[j], same))
        elif j and costs[i][j] == costs[i][j - 1] + GAP_COST:
            j -= 1
            pairs.append(WordPair((), there[j], same=False))
        else:
            i -= 1
            pairs.append(WordPair(here[i], (), same=False))
    return Alignment(source, target, tuple(reversed(pairs)))


def token_origins(source: Sequence[int], target: Sequence[int]) -> list[int | None]:
    """Return for each token of the target the equal token of the source that it comes from, or None.

    A longest common subsequence of tokens. Of equally long ones it is the one of prompt-to-prompt's released
    code (`get_mapper` with gap 0, match 1, mismatch -1), which reads both from the end and prefers a token
    that was added to one that was removed, and that to a pair.
    """
    lengths = _common_lengths(source, target)
    origins: list[int | None] = [None] * len(target)
    i, j = len(source), len(target)
    while i and j:
        if lengths[i][j] == lengths[i][j - 1]:
            j -= 1
        elif lengths[i][j] == lengths[i - 1][j]:
            i -= 1
        else:
            i, j = i - 1, j - 1
            origins[j] = i
    return origins


def _common_lengths(source: Sequence[int], target: Sequence[int]) -> list[list[int]]:
    """Length of the longest common subsequence of each pair of beginnings."""
    table = [[0] * (len(target) + 1)]
    for token in source:
        row = [0]
        for j, other in enumerate(target):
            pair = table[-1][j] + 1 if token == other else 0
            row.append(max(pair, table[-1][j + 1], row[-1]))
        table.append(row)
    return table


def _costs(source: list[tuple[int, ...]], target: list[tuple[int, ...]]) -> list[list[int]]:
    table = [[GAP_COST * j for j in range(len(target) + 1)]]
    for i, word in enumerate(source, start=1):
        row = [GAP_COST * i]
        for j, other in enumerate(target, start=1):
            diagonal = table[-1][j - 1] + (0 if word == other else SUBSTITUTION_COST)
            row.append(min(diagonal, table[-1][j] + GAP_COST, row[-1] + GAP_COST))
        table.append(row)
    return table
