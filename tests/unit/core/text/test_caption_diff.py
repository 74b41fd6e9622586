"""The word difference of captions and the parsing of proposed lines, on known answers."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose_core.text.caption_diff import (
    Difference,
    Span,
    compact_prompt,
    difference,
    parse_variations,
    words,
)

# Hyphens, digits, apostrophes and letters beyond ASCII, each one word.
WORDS = st.sampled_from(
    ["a", "close-up", "double-decker", "x-ray", "2", "12", "3.5", "1,000", "dog's", "dogs", "naïve", "été"]
)
SEPARATORS = st.sampled_from([" ", "’ ", ", ", ". ", " - ", " – ", "; ", "! ", " (", ") ", ' "', "\n"])
# No deadline: a busy machine is no failure of the code.
FEW = settings(max_examples=25, deadline=None)
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


def test_words_include_hyphens_apostrophes_and_decimals_but_no_punctuation() -> None:
    spoken = [word.text for word in words("A close-up of 2 dogs, the dog's 3.5 m double-decker bus.")]
    assert spoken == ["A", "close-up", "of", "2", "dogs", "the", "dog's", "3.5", "m", "double-decker", "bus"]


def test_words_have_their_positions_in_the_text() -> None:
    text = 'a "red" boat!'
    assert [text[word.start : word.end] for word in words(text)] == ["a", "red", "boat"]


def test_a_replaced_word_is_found_at_its_position() -> None:
    edit = difference("a photo of a red boat", "a photo of a blue boat")
    assert edit == Difference((Span(("red",), 4),), (Span(("blue",), 4),), places=1)
    assert edit.places == 1


@pytest.mark.paper("LANCE-D-hyphen-diff")
def test_an_unchanged_close_up_is_not_removed() -> None:
    assert texts(difference("a close-up of a red boat", "a close-up of a blue boat")) == (["red"], ["blue"])


@pytest.mark.paper("LANCE-D-hyphen-diff")
def test_plus_and_minus_signs_never_leak_into_words() -> None:
    assert texts(difference("a woman with a t-shirt", "a man with a t-shirt + hat")) == (
        ["woman"],
        ["man", "hat"],
    )


def test_a_changed_number_is_an_edit() -> None:
    assert texts(difference("2 dogs on the road", "3 dogs on the road")) == (["2"], ["3"])


@pytest.mark.paper("LANCE-D-two-places")
def test_an_edit_in_two_places_keeps_both() -> None:
    edit = difference("a red boat on the water at night", "a blue boat on the sand at night")
    assert texts(edit) == (["red", "water"], ["blue", "sand"])
    assert [span.start for span in edit.added] == [1, 5]
    assert (edit.removed_text, edit.added_text) == ("red water", "blue sand")
    assert edit.places != 1


def test_changed_case_or_punctuation_is_not_an_edit() -> None:
    assert difference("A dog, running.", "a dog running").is_empty
    edit = difference("A Dog.", "A Cat!")
    assert edit == Difference((Span(("Dog",), 1),), (Span(("Cat",), 1),), places=1)


def test_a_different_apostrophe_is_not_an_edit() -> None:
    assert difference("the dog's ball", "the dog’s ball").is_empty


def test_an_addition_removes_nothing_and_a_removal_adds_nothing() -> None:
    assert texts(difference("a bus on the road", "a bus on the road in the rain")) == ([], ["in the rain"])
    assert texts(difference("a bus on the road in the rain", "a bus on the road")) == (["in the rain"], [])


def test_repeated_words_do_not_split_one_insertion_in_two() -> None:
    edit = difference("a photo of a boat", "a photo of a close-up of a boat")
    assert edit.places == 1
    assert sum(len(span.words) for span in edit.added) == 3


def test_disjoint_and_empty_texts_can_be_compared() -> None:
    assert difference("", "").is_empty
    assert texts(difference("", "a dog")) == ([], ["a dog"])
    assert texts(difference("one", "two three")) == (["one"], ["two three"])


@FEW
@given(CAPTIONS, CAPTIONS)
def test_an_edit_turns_one_caption_into_the_other(caption: str, edited: str) -> None:
    assert rebuilt(caption, difference(caption, edited)) == [word.text for word in words(edited)]


@FEW
@given(CAPTIONS, CAPTIONS)
def test_no_general_purpose_matcher_finds_a_smaller_edit(caption: str, edited: str) -> None:
    edit = difference(caption, edited)
    matcher = difflib.SequenceMatcher(None, caption.split(), edited.split(), autojunk=False)
    theirs = sum((b - a) + (d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")
    assert sum(len(span.words) for span in edit.removed + edit.added) <= theirs


@pytest.mark.parametrize(
    ("caption", "edited", "removed", "added"),
    [
        ("a close-up of a bus", "a close up of a bus", ["close-up"], ["close up"]),
        ("a double-decker bus", "a decker bus", ["double-decker"], ["decker"]),
        ("a 3.5 m boat", "a 3.6 m boat", ["3.5"], ["3.6"]),
        ("1,000 bees", "1,001 bees", ["1,000"], ["1,001"]),
        ("2 dogs", "12 dogs", ["2"], ["12"]),
        ("bus no. 5, at night", "bus no. 6, at night!", ["5"], ["6"]),
        ("a bus -- red", "a bus -- blue", ["red"], ["blue"]),
        ("a dog's ball", "a dogs ball", ["dog's"], ["dogs"]),
        ("rock-'n'-roll band", "rock band", ["n roll"], []),
        ("a red, red bus", "a red bus", ["red"], []),
    ],
)
def test_hyphens_digits_and_punctuation_are_distinguished(
    caption: str, edited: str, removed: list[str], added: list[str]
) -> None:
    assert texts(difference(caption, edited)) == (removed, added)


@FEW
@given(st.lists(st.tuples(WORDS, SEPARATORS), min_size=1, max_size=8))
def test_punctuation_between_words_is_never_part_of_one(parts: list[tuple[str, str]]) -> None:
    text = "".join(word + separator for word, separator in parts)
    found = words(text)
    assert [word.text for word in found] == [word for word, _ in parts]
    assert [text[word.start : word.end] for word in found] == [word.text for word in found]
    assert difference(text, " ".join(word for word, _ in parts).upper()).is_empty


@FEW
@given(st.lists(WORDS, min_size=5, max_size=9, unique=True), st.data())
def test_replacements_in_two_places_are_both_found(caption: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(caption) - 3))
    second = data.draw(st.integers(first + 2, len(caption) - 1))
    edited = list(caption)
    edited[first], edited[second] = "zebra", "4.75"
    edit = difference(" ".join(caption), " ".join(edited))
    assert edit.places == 2
    assert edit.removed == tuple(Span((caption[place],), place) for place in (first, second))
    assert edit.added == (Span(("zebra",), first), Span(("4.75",), second))


@FEW
@given(st.lists(WORDS, max_size=7, unique=True), st.lists(WORDS, min_size=1, max_size=3), st.integers(0, 7))
def test_an_inserted_phrase_is_one_edit_at_any_position(
    caption: list[str], phrase: list[str], place: int
) -> None:
    longer = [*caption[:place], *phrase, *caption[place:]]
    edit = difference(" ".join(caption), " ".join(longer))
    assert edit.places == 1
    assert edit.removed == ()
    assert sum(len(span.words) for span in edit.added) == len(phrase)


@FEW
@given(CAPTIONS, CAPTIONS)
def test_an_edit_and_its_reverse_have_the_same_size(caption: str, edited: str) -> None:
    there, back = difference(caption, edited), difference(edited, caption)
    assert there.places == back.places
    sizes = [
        [sum(len(span.words) for span in spans) for spans in (edit.removed, edit.added)]
        for edit in (there, back)
    ]
    assert sizes[0] == sizes[1][::-1]


@FEW
@given(
    st.lists(st.sampled_from(["2 dogs run", "3.5 m of snow", "a bus", "x-ray of a bee"]), unique=True),
    st.sampled_from(["{}. {}", "{}) {}", "({}) {}", "- {1}", "* {1}", '{}. "{}"', "Variation {}: {}"]),
)
def test_a_list_is_parsed_with_any_markers(captions: list[str], marker: str) -> None:
    answer = "\n\n".join(marker.format(number, text) for number, text in enumerate(captions, start=1))
    assert parse_variations(answer) == captions


@pytest.mark.paper("LANCE-D-digit-strip")
def test_list_markers_are_removed_but_numbers_are_kept() -> None:
    answer = "1. 2 dogs run\n2) 3 dogs run\n(3) 4 dogs run\n- 5 dogs run\n* 3.5 dogs run\n6 dogs run\n7.A dog"
    expected = ["2 dogs run", "3 dogs run", "4 dogs run", "5 dogs run", "3.5 dogs run", "6 dogs run", "A dog"]
    assert parse_variations(answer) == expected


@pytest.mark.paper("LANCE-D-duplicates")
def test_duplicates_and_echoes_of_the_original_are_dropped() -> None:
    answer = "A red boat.\na blue boat\nA Blue Boat.\na green boat"
    assert parse_variations(answer, original="a red boat") == ["a blue boat", "a green boat"]


def test_headings_blank_lines_and_wrapping_quotes_are_removed() -> None:
    answer = 'Here are some variations:\n\n"a blue boat"\nVariation 2: “a green boat”\n---\n'
    assert parse_variations(answer) == ["a blue boat", "a green boat"]


def test_a_quote_inside_a_caption_is_kept() -> None:
    assert parse_variations('a sign that says "stop"') == ['a sign that says "stop"']


def test_the_answer_ends_at_the_next_section() -> None:
    assert parse_variations("a blue boat\n### Instruction:\na green boat") == ["a blue boat"]


def test_the_compact_prompt_names_the_type_and_ends_before_the_answer() -> None:
    assert compact_prompt("adjective", "a red boat") == "adjective : a red boat =>"
