"""The edits that presets are compared on."""

from __future__ import annotations

from evaluation.edit_quality.trials import trial


def test_edits_of_other_length_add_or_remove_words() -> None:
    drawn = [edit for index in range(8) for edit in trial(index, drawn_from="other-length").edits]
    assert {edit.edit_type for edit in drawn} == {"subject", "object", "background"}
    for edit in drawn:
        assert len(edit.caption.split()) != len(edit.edited_caption.split())


def test_all_edits_have_one_of_each_type() -> None:
    edits = trial(0).edits
    assert len({edit.edit_type for edit in edits}) == len(edits) == 5
