"""B1 to B24: pictures and what carries them."""

from __future__ import annotations

_ALONE = "test_an_upload_of_one_bad_file_is_refused_under_its_code"
_BESIDE = "test_one_upload_of_every_bad_kind_takes_the_one_good_picture"
_OTHER_MEDIA = "test_another_medium_is_told_from_broken_bytes"
_TWO_THINGS = "test_a_picture_that_is_something_else_besides_is_refused"
_BOMBS = "test_texts_and_profiles_that_inflate_without_bound_are_refused"
_UNUSUAL = "test_an_unusual_mode_is_taken_and_converted_the_same_way_each_time"
_MODES = "test_every_png_mode_becomes_red_green_blue"
_NO_BASE64 = "test_text_that_is_no_base64_is_no_picture"
_FORM = "test_a_form_in_parts_is_refused"
_LYING_REMOTE = "test_a_remote_model_that_lies_or_fails_is_named_as_such"
_LYING_METADATA = "test_metadata_that_describe_no_classifier_are_refused"
_ENGINES = (
    "test_bad_pictures_fail_alone", "test_bad_items_fail_alone", "test_a_bad_picture_fails_alone",
    "test_a_bad_picture_fails_only_the_edits_that_show_it", "test_a_bad_picture_is_not_sent",
)  # fmt: skip


def _file(kind: str, *more: str) -> tuple[str, ...]:
    """The tests of a kind of bad file: alone, and beside good ones."""
    return (f"{_ALONE}[{kind}]", f"{_BESIDE}[{kind}]", *more)


GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "B1": {"a file of 0 bytes": _file("no byte at all", "test_an_empty_file_is_left_out_and_named")},
    "B2": {"a picture of 1 pixel": _file("one pixel as")},
    "B3": {
        "random bytes as PNG": _file("random bytes behind a PNG's signature"),
        "random bytes": _file("random bytes"),
        "a web page": _file("a web page"),
    },
    "B4": {
        "a truncated JPEG": _file(
            "a cut JPEG", "test_a_truncated_picture_is_undecodable_wherever_it_was_cut"
        ),
        "a truncated PNG or WebP": (*_file("a cut PNG"), *_file("a cut WebP")),
        "one in a run": ("test_one_bad_picture_fails_its_own_items_and_not_the_run",),
        "one in a service's call": _ENGINES,
    },
    "B5": {
        "a wrong checksum of the header": _file("a PNG whose header's checksum is wrong"),
        "a wrong checksum of the pixels": _file(
            "a PNG whose pixels' checksum is wrong", "test_one_flipped_bit_in_any_checksum_is_found"
        ),
        "a flipped bit": ("test_one_flipped_bit_anywhere_in_a_chunk_is_found",),
    },
    "B6": {
        "a PNG of 50,000 x 50,000 pixels": _file(
            "a PNG of 50,000 x 50,000", "test_too_many_pixels_are_refused_before_decoding"
        ),
        "a JPEG or WebP of such a size": (*_file("a JPEG of 65,000"), *_file("a WebP of 16,383")),
    },
    "B7": {
        "a zTXt bomb": _file("a zTXt that inflates", f"{_BOMBS}[zTXt]"),
        "an iTXt bomb": _file("an iTXt that inflates", f"{_BOMBS}[iTXt]"),
        "many texts that are small one by one": _file("sixty texts", f"{_BOMBS}[many texts]"),
        "a bomb behind the pixels": ("test_a_bomb_behind_the_pixels_is_found_too",),
    },
    "B8": {"a colour profile that is a bomb": _file("a profile that inflates", f"{_BOMBS}[iCCP]")},
    "B9": {"a GIF of 10,000 frames": _file("a GIF of 10,000 frames")},
    "B10": {"an animated PNG, WebP or GIF": _file("animated", "test_animations_are_refused")},
    "B11": {
        name: _file(name, f"{_OTHER_MEDIA}[{name}]")
        for name in ("TIFF", "FITS", "EPS", "PDF", "PSD", "SVG", "ICO")
    },
    "B12": {
        "PNG and ZIP": _file("PNG and ZIP", f"{_TWO_THINGS}[PNG and ZIP]"),
        "JPEG and JavaScript": _file("JPEG and JavaScript", f"{_TWO_THINGS}[JPEG and JavaScript]"),
        "what phones leave behind a picture (accepted)": (
            "test_what_a_phone_or_a_disk_leaves_behind_a_picture_does_no_harm",
            "test_what_stands_behind_a_pictures_end_is_not_stored",
        ),
    },
    "B13": {
        "CMYK": (f"{_UNUSUAL}[CMYK]", "test_cmyk_jpegs_are_accepted_and_equal_each_time"),
        "16 bit": (f"{_UNUSUAL}[16 bit]", f"{_MODES}[I;16]"),
        "1 bit": (f"{_UNUSUAL}[1 bit]", _MODES),
        "palette and alpha": (
            f"{_UNUSUAL}[palette and alpha]", "test_a_palette_with_transparency_lies_on_white",
        ),
        "LA": (f"{_UNUSUAL}[LA]", f"{_MODES}[LA]"),
    },
    "B14": {
        "an EXIF rotation": (
            "test_the_exif_rotation_is_applied_once",
            "test_a_rotation_is_applied_once_from_upload_to_what_leaves",
        ),
    },
    "B15": {
        "where a picture was taken": (
            "test_where_and_with_what_a_picture_was_taken_is_neither_stored_nor_shown",
        ),
    },
    "B16": {
        "another medium under a picture's name": (
            "test_another_medium_under_a_pictures_name_is_refused_for_what_it_is",
        ),
        "one of the three formats under another's name (the bytes decide)": (
            "test_a_name_that_lies_between_the_three_formats_changes_nothing",
        ),
    },
    "B17": {
        "JSON under another type": ("test_a_body_under_another_content_type_is_refused",),
        "JSON under no type": ("test_a_body_without_a_content_type_is_refused",),
        "a picture under JSON's type": ("test_a_picture_that_says_it_is_json_is_no_request",),
    },
    "B18": {
        "white space": (f"{_NO_BASE64}[a blank before it]", f"{_NO_BASE64}[lines of 76 letters]"),
        "padding": (f"{_NO_BASE64}[padding missing]", f"{_NO_BASE64}[padding too much]"),
        "letters beyond the alphabet": (f"{_NO_BASE64}[letters beyond ASCII]",),
        "40 MB": (
            "test_base64_of_40_megabytes_is_a_body_too_large",
            "test_base64_of_more_than_a_picture_may_have_is_refused_by_its_place",
        ),
    },
    "B19": {
        "a data: URL": (f"{_NO_BASE64}[a data: URL]",),
        "one of a huge type": (f"{_NO_BASE64}[a data: URL of a huge type]",),
    },
    "B20": {
        "multipart without a boundary": (f"{_FORM}[without a boundary]",),
        "10,000 parts": (f"{_FORM}[of 10,000 parts]",),
        "a field twice": (f"{_FORM}[with one field twice]",),
    },
    "B21": {"a gzip bomb": ("test_a_packed_body_is_refused_and_not_inflated",)},
    "B22": {
        "headers at one byte a second": (
            "test_headers_that_do_not_come_in_time_are_not_waited_for", "test_each_further_byte_buys_no_time",
        ),
        "a body at one byte a second": ("test_a_body_that_never_comes_is_not_waited_for",),
    },
    "B23": {
        "NaN and infinity": (
            "test_remote_numbers_that_are_not_finite_are_no_prediction",
            "test_one_picture_answered_with_nan_fails_alone",
        ),
        "a shape that is not the length": (f"{_LYING_REMOTE}[rows([0.5, 0.5], [1, 3])]",),
        "negative sizes": (f"{_LYING_REMOTE}[-1, -3]", f"{_LYING_METADATA}[-SIDE, -SIDE]"),
        "sizes of 2^31": (f"{_LYING_REMOTE}[1, 2**31]", f"{_LYING_METADATA}[2**31, 2**31]"),
        "a shape or type that is not the model's, sent to a served function": (
            "test_a_body_that_is_no_request_is_refused_and_the_server_goes_on[shape=[-1, 4, 6, 3]]",
        ),
        "another data type": (f"{_LYING_REMOTE}[INT64]", f"{_LYING_METADATA}[INT64]"),
    },
    "B24": {
        "a picture twice (accepted, two sources)": (
            "test_one_picture_twice_is_two_sources_and_sent_again_no_more",
            "test_sources_are_told_apart_by_content_label_and_how_often_they_come",
        ),
        "and twice the items": ("test_one_picture_under_two_names_is_planned_twice",),
    },
}  # fmt: skip
LATER: dict[str, str] = {}
PROMISED = range(1, 25)
