"""Which captions are drawn: each once, and what they say about equally often."""

from __future__ import annotations

from collections import Counter

from counterpose_core.bug_hunt.coverage import balanced

STYLES = ["sketch"] * 17 + ["painting"] * 2 + ["photo"] * 2
PLACES = ["sand", "snow", "grass", "road"]
CAPTIONS = [
    f"a {style} of a kite on the {PLACES[number % 4]} by artist{number}"
    for number, style in enumerate(STYLES)
]


def test_rare_words_come_before_frequent_ones_of_which_there_are_enough() -> None:
    chosen = balanced(CAPTIONS, "kite", 6)
    assert Counter(each.split()[1] for each in chosen) == {"sketch": 2, "painting": 2, "photo": 2}
    assert max(Counter(each.split()[7] for each in chosen).values()) <= 2


def test_each_caption_comes_once_and_none_is_lost() -> None:
    assert sorted(balanced(CAPTIONS, "kite", 100)) == sorted(CAPTIONS)
    assert balanced([], "kite", 3) == []


def test_of_equal_claims_the_first_is_taken_in_every_process() -> None:
    captions = ["a red kite", "a blue kite", "a kite", "a green kite"]
    assert balanced(captions, "kite", 4) == ["a red kite", "a blue kite", "a green kite", "a kite"]


def test_what_the_queue_chooses_is_what_looking_at_every_caption_would_choose() -> None:
    def rarest(taken: Counter[str], left: list[str]) -> str:
        said = {each: set(each.split()) - {"a", "of", "kite", "on", "the", "by"} for each in left}
        return max(
            left, key=lambda each: sum(sorted(1 / (1 + taken[word]) for word in said[each])) / len(said[each])
        )

    left, taken, expected = list(CAPTIONS), Counter[str](), list[str]()
    while left:
        expected.append(rarest(taken, left))
        left.remove(expected[-1])
        taken.update(set(expected[-1].split()) - {"a", "of", "kite", "on", "the", "by"})
    assert balanced(CAPTIONS, "kite", len(CAPTIONS)) == expected
