"""The word difference of captions and the reading of proposed lines, by known answers."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from faultline_core.perturbations import Difference, Span, compact_prompt, difference, parse_variations, words

CAPTIONS = st.lists(st.sampled_from(["a", "red", "dog", "of", "close-up", "2"]), max_size=9).map(" ".join)


def texts(edit: Difference) -> tuple[list[str], list[str]]:
    return [span.text for span in edit.removed], [span.text for span in edit.added]


def rebuilt(caption: str, edit: Difference) -> list[str]:
    """Apply an edit word by word: cut the removed words, then put each added one at its place."""
    gone = {span.start + offset for span in edit.removed for offset in range(len(span.words))}
    kept = [word.text for index, word in enumerate(words(caption)) if index not in gone]
    for span in edit.added:
        kept[span.start : span.start] = span.words
    return kept


def test_words_keep_hyphens_apostrophes_and_decimal_numbers_and_leave_punctuation_out() -> None:
    spoken = [word.text for word in words("A close-up of 2 dogs, the dog's 3.5 m double-decker bus.")]
    assert spoken == ["A", "close-up", "of", "2", "dogs", "the", "dog's", "3.5", "m", "double-decker", "bus"]


def test_words_know_where_they_stand_in_the_text() -> None:
    text = 'a "red" boat!'
    assert [text[word.start : word.end] for word in words(text)] == ["a", "red", "boat"]


def test_a_replaced_word_is_found_at_its_position() -> None:
    edit = difference("a photo of a red boat", "a photo of a blue boat")
    assert edit == Difference((Span(("red",), 4),), (Span(("blue",), 4),), places=1)
    assert edit.is_single_place


def test_an_unchanged_close_up_is_not_removed() -> None:
    assert texts(difference("a close-up of a red boat", "a close-up of a blue boat")) == (["red"], ["blue"])


def test_plus_and_minus_signs_never_leak_into_words() -> None:
    assert texts(difference("a woman with a t-shirt", "a man with a t-shirt + hat")) == (
        ["woman"],
        ["man", "hat"],
    )


def test_a_changed_number_is_an_edit() -> None:
    assert texts(difference("2 dogs on the road", "3 dogs on the road")) == (["2"], ["3"])


def test_an_edit_in_two_places_keeps_both() -> None:
    edit = difference("a red boat on the water at night", "a blue boat on the sand at night")
    assert texts(edit) == (["red", "water"], ["blue", "sand"])
    assert [span.start for span in edit.added] == [1, 5]
    assert (edit.removed_text, edit.added_text) == ("red water", "blue sand")
    assert not edit.is_single_place


def test_capitals_and_punctuation_are_no_edit() -> None:
    assert difference("A dog, running.", "a dog running").is_empty
    edit = difference("A Dog.", "A Cat!")
    assert edit == Difference((Span(("Dog",), 1),), (Span(("Cat",), 1),), places=1)


def test_the_kind_of_apostrophe_is_no_edit() -> None:
    assert difference("the dog's ball", "the dog’s ball").is_empty


def test_an_addition_removes_nothing_and_a_removal_adds_nothing() -> None:
    assert texts(difference("a bus on the road", "a bus on the road in the rain")) == ([], ["in the rain"])
    assert texts(difference("a bus on the road in the rain", "a bus on the road")) == (["in the rain"], [])


def test_repeated_words_do_not_scatter_one_insertion_over_two_places() -> None:
    edit = difference("a photo of a boat", "a photo of a close-up of a boat")
    assert edit.is_single_place
    assert sum(len(span.words) for span in edit.added) == 3


def test_texts_with_nothing_in_common_or_nothing_at_all_are_compared_too() -> None:
    assert difference("", "").is_empty
    assert texts(difference("", "a dog")) == ([], ["a dog"])
    assert texts(difference("one", "two three")) == (["one"], ["two three"])


@given(CAPTIONS, CAPTIONS)
def test_an_edit_turns_one_caption_into_the_other(caption: str, edited: str) -> None:
    assert rebuilt(caption, difference(caption, edited)) == [word.text for word in words(edited)]


@given(CAPTIONS, CAPTIONS)
def test_no_general_purpose_matcher_finds_a_smaller_edit(caption: str, edited: str) -> None:
    edit = difference(caption, edited)
    matcher = difflib.SequenceMatcher(None, caption.split(), edited.split(), autojunk=False)
    theirs = sum((b - a) + (d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")
    assert sum(len(span.words) for span in edit.removed + edit.added) <= theirs


def test_list_numbers_and_dashes_are_taken_off_but_real_numbers_stay() -> None:
    answer = "1. 2 dogs run\n2) 3 dogs run\n(3) 4 dogs run\n- 5 dogs run\n* 3.5 dogs run\n6 dogs run\n7.A dog"
    expected = ["2 dogs run", "3 dogs run", "4 dogs run", "5 dogs run", "3.5 dogs run", "6 dogs run", "A dog"]
    assert parse_variations(answer) == expected


def test_repeated_lines_and_the_echo_of_the_original_are_dropped() -> None:
    answer = "A red boat.\na blue boat\nA Blue Boat.\na green boat"
    assert parse_variations(answer, original="a red boat") == ["a blue boat", "a green boat"]


def test_headings_blank_lines_and_wrapping_quotes_are_taken_off() -> None:
    answer = 'Here are some variations:\n\n"a blue boat"\nVariation 2: “a green boat”\n---\n'
    assert parse_variations(answer) == ["a blue boat", "a green boat"]


def test_a_quote_inside_a_caption_stays() -> None:
    assert parse_variations('a sign that says "stop"') == ['a sign that says "stop"']


def test_the_answer_ends_where_a_new_section_begins() -> None:
    assert parse_variations("a blue boat\n### Instruction:\na green boat") == ["a blue boat"]


def test_the_compact_prompt_names_the_type_and_ends_where_the_answer_begins() -> None:
    assert compact_prompt("adjective", "a red boat") == "adjective : a red boat =>"
