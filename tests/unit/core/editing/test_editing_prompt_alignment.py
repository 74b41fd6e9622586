import pytest

from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.errors import InvalidRequest

BOS, EOS = 1000, 1001
IDS: dict[str, int] = {}
"""One id a part of a word: Python's own hash of a string is salted, and can meet another's."""


def prompt(text: str, *, halves: tuple[str, ...] = ()) -> TokenizedPrompt:
    """One token a word, two for the words in ``halves``."""
    ids, words = [BOS], [None]
    for index, word in enumerate(text.split()):
        parts = [word + "-1", word + "-2"] if word in halves else [word]
        ids += [IDS.setdefault(part, len(IDS)) for part in parts]
        words += [index] * len(parts)  # type: ignore[list-item]  # None stands at both ends
    return TokenizedPrompt((*ids, EOS), (*words, None))


def changes(source: str, target: str) -> tuple[list[str], list[str]]:
    alignment = align(prompt(source), prompt(target))
    here, there = source.split(), target.split()
    return [here[i - 1] for i in alignment.removed], [there[i - 1] for i in alignment.added]


@pytest.mark.parametrize(
    ("source", "target", "removed", "added"),
    [
        ("a red bus on grass", "a red bus on grass", [], []),
        ("a red bus on grass", "a blue bus on grass", ["red"], ["blue"]),
        ("a bus on grass", "a bus on grass in the rain", [], ["in", "the", "rain"]),
        ("a bus on grass in the rain", "a bus on grass", ["in", "the", "rain"], []),
        ("a red bus with a dog", "a red bus with a ball", ["dog"], ["ball"]),
        ("a red bus on grass", "a bus on wet grass", ["red"], ["wet"]),
        ("a photo of a dog", "a sketch of a cat", ["photo", "dog"], ["sketch", "cat"]),
        ("the bus", "the old the bus", [], ["the", "old"]),
        ("one two three", "two three four", ["one"], ["four"]),
        ("a b c", "x y z", ["a", "b", "c"], ["x", "y", "z"]),
        ("", "a bus", [], ["a", "bus"]),
    ],
)
def test_changed_words_are_found(source: str, target: str, removed: list[str], added: list[str]) -> None:
    assert changes(source, target) == (removed, added)


def test_word_for_word_changes_are_a_replacement() -> None:
    assert align(prompt("a red bus"), prompt("a blue tram")).is_replacement
    assert align(prompt("a red bus"), prompt("a red bus")).is_replacement


def test_equal_word_counts_are_not_enough_for_a_replacement() -> None:
    assert not align(prompt("a red bus on grass"), prompt("a bus on wet grass")).is_replacement


def test_words_of_several_tokens_stay_together() -> None:
    alignment = align(prompt("a sled here", halves=("sled",)), prompt("a kite here"))
    assert [(pair.source, pair.target, pair.same) for pair in alignment.pairs] == [
        ((1,), (1,), True),
        ((2, 3), (2,), False),
        ((4,), (3,), True),
    ]
    assert (alignment.source.tail, alignment.target.tail) == (5, 4)


def test_words_are_equal_only_if_all_their_tokens_are() -> None:
    source = TokenizedPrompt((BOS, 5, 6, EOS), (None, 0, 0, None))
    target = TokenizedPrompt((BOS, 5, 7, EOS), (None, 0, 0, None))
    assert align(source, target).added == (1, 2)


def test_alignment_is_symmetric() -> None:
    def mirrored(alignment: Alignment) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [(pair.target, pair.source) for pair in alignment.pairs]

    first, second = prompt("a red bus on grass at night"), prompt("a bus on snow")
    there, back = align(first, second), align(second, first)
    assert mirrored(there) == [(pair.source, pair.target) for pair in back.pairs]


def test_tokens_without_their_words_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="2 tokens but 1"):
        TokenizedPrompt((1, 2), (None,))
