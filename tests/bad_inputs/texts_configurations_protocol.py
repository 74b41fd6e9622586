"""B25 to B31, B35 to B41, B44, B45, B49 and B50: texts, configurations, models and the protocol."""

from __future__ import annotations

_TEXT = "test_a_bad_text_is_refused_alone_and_not_kept"
_WORDS = "test_a_text_that_cannot_be_shown_or_is_more_than_text_is_refused_at_its_field"
_FRAME = "test_words_that_a_model_could_take_for_its_prompts_frame_are_refused"
_FIELD = "test_a_value_that_cannot_be_is_refused_at_its_place_and_not_stored"
_SETTING = "test_a_setting_that_cannot_be_is_refused_at_its_place"
_SUITE = "test_a_suite_with_a_setting_that_cannot_be_is_refused_by_name"
_MODEL = "test_a_model_that_is_none_is_refused_and_not_stored"
_HEADER = "test_a_file_that_only_calls_itself_safetensors_is_refused_by_name"
_CHECKPOINT = "test_a_spoilt_checkpoint_is_refused"
_READ = "test_a_body_that_two_readers_could_read_differently_is_refused_with_its_reason"
_BODY = "test_a_good_request_in_bad_json_is_refused_and_not_stored"
_NOBODYS = "test_an_address_that_is_nobodys_is_not_found_and_never_sent_elsewhere"
_PLACE = "test_a_text_that_no_field_takes_is_refused_at_its_place_and_not_echoed"
_QUOTA = "test_what_asks_for_a_billion_exceeds_the_quota_whatever_else_is_wrong"
_CLASSES = "test_classes_that_are_no_plain_names_are_refused_and_not_stored"

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "B25": {
        "an empty caption": (f"{_TEXT}[an empty caption]", f"{_SETTING}[an empty caption]"),
        "a caption of spaces": (f"{_TEXT}[a caption of spaces]", f"{_WORDS}[wide spaces]"),
        "an empty label or file name": (_PLACE,),
        "an empty caption in a folder": ("test_a_bad_text_in_a_folders_metadata_is_refused_alone",),
    },
    "B26": {
        "1 MB in a caption, a label, a file name": (_PLACE, f"{_WORDS}[a megabyte]"),
        "1 MB in a class name": (_CLASSES,),
        "1 MB at a service": (f"{_SETTING}[a caption of a megabyte]",),
    },
    "B27": {
        "more words than tokens are read": (
            f"{_TEXT}[a caption of more words than CLIP has tokens]",
            "test_more_words_than_clip_has_tokens_are_refused_and_never_cut",
        ),
        "more tokens than are read, of few words": (
            "test_a_caption_of_too_many_tokens_fails_its_own_items_at_once_and_is_never_cut",
            "test_a_prompt_that_does_not_fit_is_refused_and_named",
            "test_a_text_that_would_be_cut_is_refused",
        ),
    },
    "B28": {
        "NUL": (f"{_TEXT}[a caption with a NUL]", f"{_WORDS}[a NUL]"),
        "control": (f"{_TEXT}[a caption with a line break]", f"{_WORDS}[a terminal's escape]"),
        "bidi": (f"{_TEXT}[a caption that changes direction]", f"{_WORDS}[an isolate]"),
        "zero-width": (
            f"{_TEXT}[a caption with a zero-width space]",
            f"{_WORDS}[a zero-width joiner in Latin]",
            f"{_WORDS}[a word joiner]",
        ),
        "a lone surrogate": (_PLACE, f"{_WORDS}[a lone surrogate]"),
        "NFC and NFD twins": (
            "test_labels_that_look_alike_are_one_class_whichever_request_brings_them",
            "test_names_that_look_alike_are_twins",
            "test_a_caption_is_kept_with_one_spelling_of_each_letter",
            _CLASSES,
        ),
    },
    "B29": {
        "emoji, CJK and right-to-left are accepted": (
            "test_every_script_and_emoji_come_back_as_they_were_brought",
            "test_the_words_of_every_script_and_emoji_are_taken_as_they_are",
        ),
    },
    "B30": {
        "ignore previous": (
            f"{_TEXT}[a caption with instructions in tags]",
            "test_an_order_in_a_caption_stands_where_the_caption_stands",
        ),
        "fake JSON": (f"{_TEXT}[a caption of fake JSON]", f"{_FRAME}[a fake list in JSON]"),
        "tool tags": (f"{_TEXT}[a caption that calls a tool]", f"{_FRAME}[a call's mark]"),
        "[INST]": (f"{_FRAME}[an instruction's tag]", f"{_FRAME}[a system's tag]"),
        "<|im_end|>": (
            f"{_TEXT}[a caption that ends the chat]",
            "test_a_caption_with_a_prompts_own_marks_fails_alone",
            "test_a_tokenizers_own_marks_are_no_words",
        ),
        "a fake end of the caption": (
            f"{_FRAME}[a fake section]",
            "test_a_caption_that_would_end_its_own_place_in_the_prompt_is_refused",
        ),
    },
    "B31": {
        "HTML and JavaScript": (
            f"{_TEXT}[a caption with a script]",
            f"{_TEXT}[a label with a script]",
            f"{_TEXT}[a file name with a script]",
            "test_everything_that_came_from_outside_is_escaped",
        ),
        "a CSV formula": (
            f"{_TEXT}[a caption that is a formula]",
            f"{_TEXT}[a file name that is a formula]",
            f"{_WORDS}[a formula behind an at]",
        ),
        "{{7*7}}": (
            f"{_TEXT}[a caption that is a template]",
            f"{_TEXT}[a label that is a template]",
            "test_everything_that_came_from_outside_is_escaped",
        ),
    },
    "B35": {
        "-1": (f"{_FIELD}[a seed of -1]", f"{_SETTING}[a seed of -1]"),
        "2^64": (f"{_FIELD}[a seed of 2^64]", f"{_SETTING}[a seed of 2^64]"),
        "a float": (f"{_FIELD}[a seed of 1.5]", f"{_FIELD}[a seed of 1.0]", f"{_SETTING}[a seed of 3.0]"),
        "a string": (f"{_FIELD}[a seed in words]", f"{_SETTING}[a seed in words]"),
    },
    "B36": {
        "steps of 0": (f"{_SETTING}[steps of 0]", f"{_FIELD}[steps of 0]", _SUITE),
        "steps of 10^9": (f"{_SETTING}[steps of a billion]", _SUITE),
        "a guidance of NaN": (f"{_SETTING}[a guidance of NaN]", f"{_FIELD}[a guidance]"),
        "a resolution of 513": (_SUITE, f"{_FIELD}[a resolution of 513]"),
        "a resolution of 16384": (_SUITE,),
    },
    "B37": {
        "above 1": (
            f"{_SETTING}[a direction above 1]",
            f"{_SETTING}[a word's likeness above 1]",
            f"{_FIELD}[thresholds of its own]",
            _SUITE,
        ),
        # The only two settings of which one must not exceed the other.
        "swapped": (_SUITE,),
    },
    "B38": {
        "an unknown edit type": (
            "test_an_edit_type_that_is_none_is_named_by_its_place",
            "test_of_several_mistakes_the_one_that_gives_the_code_is_told_first",
            f"{_SETTING}[an unknown kind of edit]",
        ),
        "a field's typo": (
            f"{_FIELD}[a mistyped field]",
            "test_a_typo_within_a_picture_is_named_by_its_place",
            f"{_SETTING}[a mistyped threshold]",
        ),
    },
    "B39": {
        "0": (f"{_FIELD}[a number of edits of 0]", f"{_FIELD}[a limit of 0]"),
        "10^9": (_QUOTA, "test_a_quota_is_not_something_that_waiting_mends"),
        "more items than a run may have": (
            "test_a_run_of_more_items_than_allowed_exceeds_the_quota_whatever_else_is_wrong",
        ),
    },
    "B40": {
        "a class index out of range": ("test_a_class_map_is_a_list_of_names",),
        "a map of another length": (_CHECKPOINT,),
        "duplicate names": (
            "test_a_class_map_is_a_list_of_names",
            "test_classes_that_cannot_be_told_apart_or_shown_are_refused_and_not_stored",
        ),
        "names that differ by case": (
            f"{_TEXT}[a label of another case]",
            "test_a_class_map_is_a_list_of_names",
            "test_a_dataset_whose_classes_look_alike_is_not_tested",
        ),
    },
    "B41": {
        "unknown": (f"{_MODEL}[an unknown name]",),
        "../../etc/passwd": (f"{_MODEL}[a path upwards]", f"{_MODEL}[a path upwards of a folder]"),
        "..%2f": (f"{_MODEL}[an encoded path]",),
        "absolute": (f"{_MODEL}[an absolute path]", f"{_MODEL}[an absolute path of a folder]"),
        "file://": (f"{_MODEL}[a file's URL]",),
        "#": (f"{_MODEL}[a fragment]",),
        "NUL": (f"{_MODEL}[a NUL]",),
        "a unicode slash": (f"{_MODEL}[a unicode slash]", f"{_MODEL}[a full-width slash]"),
        "a Windows device": (f"{_MODEL}[a Windows device]", f"{_MODEL}[a Windows drive]"),
        "a symlink": (
            "test_a_link_out_of_the_models_folder_is_no_classifier",
            "test_a_folder_stays_inside_unless_a_link_leads_out",
        ),
        "300 characters": (f"{_MODEL}[300 characters]",),
    },
    "B44": {
        "TorchScript": ("test_a_torchscript_archive_is_refused", f"{_MODEL}[TorchScript]"),
        "a pickle": (
            "test_a_pickle_under_the_right_name_is_refused_without_being_opened",
            "test_a_folder_of_other_formats_is_refused",
            "test_a_pickled_adapter_is_refused",
            "test_pickled_clip_weights_are_refused_even_beside_safetensors",
            f"{_MODEL}[a pickle]",
        ),
    },
    "B45": {
        "a header of 2^63 bytes": (
            f"{_HEADER}[a header of 2^63 bytes]",
            "test_a_damaged_header_is_found_before_anything_starts",
            "test_a_spoilt_file_of_the_zoo_is_refused",
        ),
        "overlaps": (f"{_HEADER}[tensors that overlap]", f"{_HEADER}[two tensors in one place]"),
        "NaN": (_CHECKPOINT, "test_a_spoilt_file_of_the_zoo_is_refused"),
        "wrong dimensions": (_CHECKPOINT, f"{_HEADER}[a shape of more numbers than bytes]"),
        "the others go on": ("test_a_spoilt_checkpoint_costs_the_others_nothing",),
    },
    "B49": {
        "invalid": (f"{_READ}[no JSON]", f"{_BODY}[a body cut off]"),
        "10^5 deep": (
            f"{_READ}[arrays nested 100,000 deep]",
            f"{_BODY}[a good body and an object nested 100,000 deep]",
        ),
        "10^6 keys": (
            f"{_READ}[a million keys]",
            f"{_BODY}[a good body and a million keys]",
            "test_of_thousands_of_unknown_fields_twenty_are_named",
        ),
        "duplicate keys": (
            f"{_READ}[a key twice]",
            f"{_BODY}[a good body that names its seed twice]",
            "test_pictures_in_bad_json_add_nothing",
        ),
        "NaN": (f"{_READ}[NaN]", f"{_BODY}[a good body with NaN]"),
        "a byte order mark": (
            f"{_READ}[a byte order mark]",
            f"{_BODY}[a good body behind a byte order mark]",
        ),
        "UTF-16": (f"{_READ}[UTF-16 with its mark]", f"{_BODY}[a good body in UTF-16]"),
    },
    "B50": {
        "a wrong method": (
            "test_a_method_that_no_route_has_is_named_with_those_that_it_has",
            "test_a_head_request_is_refused_without_a_traceback",
        ),
        "a wrong path": (_NOBODYS, "test_a_wrong_address_is_a_named_problem"),
        "a slash too many": (f"{_NOBODYS}[/v1/stress-tests/]", f"{_NOBODYS}[/v1//stress-tests]"),
    },
}
LATER: dict[str, str] = {}
PROMISED = (*range(25, 32), *range(35, 42), 44, 45, 49, 50)
