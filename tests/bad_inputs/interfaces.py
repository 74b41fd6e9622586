"""B32, B33, B46, and what else a dataset interface and a benchmark on it can be asked wrongly."""

from __future__ import annotations

_CLASS = "test_bad_classes_fail_alone_with_their_reasons"
_TOKEN = "test_tokens_that_do_not_fit_concern_their_own_pictures_alone"
_ASKED = "test_what_cannot_be_generated_is_refused_by_name"
_PLANNED = "test_a_request_that_cannot_be_planned_is_refused_by_name"
_SHIFT = "test_what_is_no_shift_is_refused_by_name"
_BENCHMARK = "test_what_cannot_be_planned_is_refused_by_code_and_place"
_NAMES = "test_classes_that_are_no_plain_names_are_refused_and_not_stored"

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "B32": {
        # No text spells one: tokens are numbered behind the vocabulary, and belong to who knows a digest.
        "a placeholder token in a text": (
            "test_no_text_spells_a_token_of_the_slot",
            "test_what_only_looks_like_a_slot_is_refused_everywhere",
            "test_a_bad_text_is_refused_alone_and_not_kept[a caption with a learned token]",
        ),
        "another's token": ("test_no_text_spells_a_token_of_the_slot", f"{_TOKEN}[MISSING]"),
        "a placeholder in a class's name": (
            f"{_CLASS}[slot]",
            "test_class_names_that_are_no_words_are_refused",
            f"{_NAMES}[a <class>]",
        ),
        "a placeholder in an initialiser": (f"{_PLANNED}[/token_init]",),
    },
    "B33": {
        "no slot": (
            "test_a_token_wants_exactly_one_slot[no slots]",
            "test_a_prompt_without_exactly_one_place_for_the_class_is_refused_by_name",
            "test_a_template_has_exactly_one_slot",
            f"{_SHIFT}[no <class>]",
            f"{_ASKED}[no <class>]",
            f"{_TOKEN}[a bus]",
        ),
        "two slots": (
            "test_a_token_wants_exactly_one_slot[2 slots]",
            f"{_SHIFT}[2 <class>]",
            f"{_ASKED}[2 <class>]",
            f"{_TOKEN}[a <class> on a <class>]",
        ),
        "a slot that nothing is given for": (
            "test_a_slot_wants_a_token",
            "test_a_bad_text_is_refused_alone_and_not_kept[a caption with a class slot]",
        ),
    },
    "B46": {
        "a token of another width": (
            "test_a_bundle_of_another_width_is_refused_with_both_widths",
            "test_a_bundle_is_refused_by_the_other_width",
            f"{_TOKEN}[wide]",
        ),
        "a token of another model": (
            "test_a_bundle_of_another_model_of_equal_width_is_refused_with_both_names",
        ),
        "what is no token": ("test_what_is_no_bundle_is_refused_with_its_reason", f"{_TOKEN}[no bundle]"),
    },
    "a class to learn": {
        "without an image": (f"{_CLASS}[no image]", "test_a_class_without_pictures_is_named_as_missing"),
        "with one image": ("test_one_picture_is_enough_and_is_counted",),
        "with unreadable images": (
            f"{_CLASS}[none of the 2 images]",
            "test_unreadable_pictures_are_dropped_and_named",
        ),
        "of a name without a token": (
            f"{_CLASS}[is nothing]",
            "test_words_that_give_no_start_are_refused",
            "test_a_name_of_no_words_may_learn_from_an_initialiser",
        ),
        "of a name like another's": (
            "test_two_classes_under_one_name_are_refused",
            "test_a_dataset_whose_classes_look_alike_is_not_tested",
        ),
    },
    "a shift": {
        "longer than an encoder reads": (
            "test_a_shift_of_too_many_words_is_refused_and_never_cut",
            f"{_TOKEN}[prompt-too-long]",
            "test_a_prompt_that_clip_cannot_read_whole_finds_nothing",
        ),
        "of no words": (f"{_SHIFT}[empty]",),
    },
    "a scheduler": {
        "unknown": (
            "test_unknown_and_unusable_schedulers_are_refused_with_the_known_ones[os]",
            f"{_ASKED}[/scheduler]",
        ),
        "of another kind of model": (
            "test_unknown_and_unusable_schedulers_are_refused_with_the_known_ones[FlowMatch]",
        ),
        "of fewer steps": ("test_more_steps_than_a_model_was_distilled_on_are_refused",),
    },
    "a folder to retrieve from": {
        "empty": (
            "test_a_folder_without_a_picture_is_refused",
            f'{_BENCHMARK}["retrieval": "empty"]',
        ),
        "without a readable picture": ("test_an_empty_folder_and_one_of_unreadable_pictures_are_told_apart",),
        "with unreadable pictures": (
            "test_unreadable_pictures_are_left_out_and_named",
            "test_what_could_not_be_searched_is_in_the_summary_and_in_the_report",
        ),
        "changed since indexing": (
            "test_a_folder_that_changed_since_planning_is_searched_as_it_was",
            "test_a_dataset_that_changed_is_embedded_anew",
            "test_a_dataset_that_changed_since_indexing_is_refused_by_its_digests",
            "test_an_index_of_another_state_of_the_dataset_is_refused",
        ),
        "indexed by another CLIP": (
            "test_another_clip_gets_an_index_of_its_own",
            "test_an_index_of_another_clip_is_refused_by_name",
        ),
    },
    "an interface": {
        "cancelled half-way": (
            "test_of_a_cancelled_interface_finished_classes_are_usable",
            "test_a_cancelled_interface_gives_what_it_has_and_says_what_is_missing",
        ),
        "of a dataset that is not there": ("test_a_dataset_that_is_not_there_is_named_by_its_place",),
    },
    "a benchmark": {
        "cancelled half-way": ("test_a_run_cancelled_midway_keeps_what_is_done_and_records_nothing_more",),
        "of two datasets for one condition": (f"{_BENCHMARK}[IN THE SNOW]",),
        "of a classifier that nobody can describe": (
            "test_a_classifier_that_nobody_can_describe_is_named_by_its_place_in_the_request",
        ),
    },
}
LATER: dict[str, str] = {}
PROMISED = (32, 33, 46)
