"""Every kind of bad input that the product promises to name, and the tests that hold it to its word."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

import pytest

import bad_inputs

TESTS = Path(__file__).parents[2]

_BAD_FILE = "test_a_bad_file_is_named_under_its_code_and_leaves_nothing_in_the_store"
_BAD_SOURCE = "test_a_bad_source_is_refused_alone"
_BAD_REQUEST = "test_a_stress_test_that_cannot_be_is_refused_and_not_stored"
_BAD_SERVICE = "test_a_bad_service_costs_tried_items_with_their_reason_and_makes_no_number"

LINES: dict[str, tuple[str, ...]] = {
    "an undecodable image": (_BAD_FILE, _BAD_SOURCE),
    "a truncated image": (_BAD_FILE,),
    "an image of too many pixels": (_BAD_FILE,),
    "an animated image": (_BAD_FILE,),
    "an image of another format": (_BAD_FILE, "test_the_bytes_decide_and_not_the_file_name"),
    "one bad file among good ones, uploaded": (
        "test_one_upload_of_every_bad_kind_takes_the_one_good_picture",
    ),
    "one bad file among good ones, in a folder": ("test_one_bad_file_is_named_and_the_others_are_taken",),
    "one bad picture in a run": ("test_one_bad_picture_fails_its_own_items_and_not_the_run",),
    "an empty dataset": (_BAD_REQUEST, "test_an_empty_dataset_is_refused"),
    "a folder without a usable picture": ("test_a_folder_without_a_usable_picture_is_refused",),
    "a label outside the dataset's classes": (
        _BAD_SOURCE, "test_a_label_outside_the_datasets_classes_is_refused",
    ),
    "a class outside the classifier's class map": (
        "test_a_dataset_class_outside_the_class_map_is_refused",
        "test_a_classifier_that_cannot_be_had_is_refused_at_creation_and_nothing_is_stored",
    ),
    "classes that are no list of distinct names": (
        "test_classes_that_cannot_be_told_apart_or_shown_are_refused_and_not_stored",
    ),
    "an unknown classifier": (_BAD_REQUEST, "test_an_unknown_classifier_is_refused_with_those_that_exist"),
    "an unknown edit type": (_BAD_REQUEST,),
    "an unknown field": (_BAD_REQUEST, "test_an_upload_of_the_wrong_form_adds_nothing"),
    "a path where a dataset's name belongs": (
        "test_a_path_where_a_datasets_name_belongs_is_refused_and_not_stored", _BAD_REQUEST,
    ),
    "a path where a classifier's name belongs": (_BAD_REQUEST,),
    "a path where a file name belongs": (_BAD_SOURCE,),
    "a path where a digest belongs": ("test_a_wrong_address_is_a_named_problem",),
    "weights that are not safetensors": (
        "test_a_classifier_that_cannot_be_had_is_refused_at_creation_and_nothing_is_stored",
        "test_pickled_clip_weights_are_refused_even_beside_safetensors",
    ),
    "no surviving edit": (
        "test_without_a_surviving_edit_the_report_renders_and_says_so",
        "test_a_report_without_surviving_edit_says_so",
    ),
    "a service that is down": (_BAD_SERVICE, "test_what_may_pass_is_waited_out"),
    "a service that is slow": (_BAD_SERVICE, "test_a_service_that_hangs_opens_its_circuit"),
    "a service that lies": (_BAD_SERVICE, "test_a_lying_service_fails_items_and_never_becomes_a_number"),
    "a service that recovers": ("test_a_service_that_recovers_costs_attempts_and_no_item",),
    "a body that is no request": ("test_a_body_that_is_no_request_is_a_named_problem",),
    "a defect of ours": ("test_a_failure_that_nobody_named_tells_nothing_of_its_insides",),
}  # fmt: skip


# Group by group, in tables of their own: whoever adds one module adds its groups.
TABLES = {
    found.name: importlib.import_module(f"bad_inputs.{found.name}")
    for found in pkgutil.iter_modules(bad_inputs.__path__)
}
GROUPS = [
    (group, case, tests)
    for table in TABLES.values()
    for group, cases in table.GROUPS.items()
    for case, tests in cases.items()
]


@cache
def _files() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in sorted(TESTS.rglob("test_*.py")))


@cache
def _files_with(name: str) -> tuple[str, ...]:
    return tuple(text for text in _files() if f"def {name}(" in text)


def _exists(test: str) -> bool:
    """Whether there is such a test, and in its file or the fakes the case in brackets if one is named."""
    name, _, case = test.removesuffix("]").partition("[")
    files = _files_with(name)
    return bool(files) and any(case in text for text in (*files, *_fakes()))


@cache
def _fakes() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in sorted((TESTS / "fakes").glob("*.py")))


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_list_names_tests_that_exist(line: str) -> None:
    assert [name for name in LINES[line] if not _exists(name)] == []


@pytest.mark.parametrize(("group", "case", "tests"), GROUPS)
def test_every_case_of_a_group_names_tests_that_exist(group: str, case: str, tests: tuple[str, ...]) -> None:
    assert tests
    assert [test for test in tests if not _exists(test)] == []


def test_a_group_has_one_place_and_a_group_for_later_its_reason() -> None:
    groups = [group for table in TABLES.values() for group in (*table.GROUPS, *table.LATER)]
    assert sorted(groups) == sorted(set(groups))
    assert all(reason for table in TABLES.values() for reason in table.LATER.values())


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_every_group_that_it_promises(table: str) -> None:
    found = TABLES[table]
    assert {f"B{number}" for number in found.PROMISED} <= {*found.GROUPS, *found.LATER}


def test_a_test_that_is_not_there_is_noticed() -> None:
    there = "test_a_bad_file_is_named_under_its_code_and_leaves_nothing_in_the_store"
    assert _exists(there)
    assert _exists(f"{there}[random bytes]")
    assert not _exists(f"{there}[a case that nobody has thought of]")
    assert not _exists(there[:-1])
