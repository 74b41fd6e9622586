"""The parts of ``make test``: every file is in one of them, all that shares the stack in the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import parts as module
from parts import STACK, Parts, parts

pytest_plugins = ["pytester"]

SECONDS = {"long": 30.0, "half": 15.0, "stacked": 12.0, "other": 11.0, "short": 2.0, "piled": 10.0}
FILES = sorted(SECONDS)
ROOT = Path(__file__).parents[2]
BARE = ("-p", "no:cacheprovider", "-p", "no:logging", "-p", "no:asyncio")
TESTS = f"""
import pytest

@pytest.fixture(scope="session")
def {STACK}():
    pass

@pytest.fixture
def client({STACK}):
    pass

def test_stacked({STACK}):
    pass

def test_by_a_fixture(client):
    pass

def test_plain():
    pass
"""


def test_every_file_is_in_one_part() -> None:
    split = parts(FILES, ["stacked", "piled"], SECONDS, 3)
    assert sorted(file for part in split for file in part) == FILES


def test_files_of_the_stack_stay_together_however_long_they_take() -> None:
    split = parts(FILES, ["stacked", "piled"], {**SECONDS, "stacked": 500.0, "piled": 400.0}, 3)
    assert {"stacked", "piled"} in split


def test_parts_take_equally_long() -> None:
    split = parts(FILES, ["stacked", "piled"], SECONDS, 3)
    assert sorted(sum(SECONDS[file] for file in part) for part in split) == [24.0, 26.0, 30.0]


def test_a_file_that_nobody_measured_takes_the_mean() -> None:
    assert parts(["new", "long", "short"], [], {"long": 30.0, "short": 2.0}, 2) == [
        {"long"},
        {"new", "short"},
    ]
    assert parts(["new", "newer"], [], {}, 2) == [{"new"}, {"newer"}]


@pytest.mark.parametrize(("kind", "beside"), [("unit", []), ("integration", ["tests/seams"])])
def test_the_makefile_runs_every_part_of_its_folders(kind: str, beside: list[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (names,) = re.findall(rf"^{kind.upper()}_PARTS := (.*)$", text, flags=re.MULTILINE)
    assert names.split() == [f"{kind}-{number}" for number in range(1, len(names.split()) + 1)]
    (folders,) = re.findall(rf"^{kind.upper()}_TESTS := (.*)$", text, flags=re.MULTILINE)
    assert folders.split() == [f"tests/{kind}", *beside, f"evaluation/tests/{kind}"]


def test_every_folder_of_tests_is_in_parts_or_has_a_verb() -> None:
    """A new folder would run nowhere."""
    found = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert found == {
        *("unit", "integration", "seams"),
        *("contract", "faults", "images_api", "trackers", "vllm_server"),
    }


def test_what_uses_the_stack_is_marked_and_comes_last(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    ran = pytester.inline_run(*BARE, plugins=[Parts(None, None)])
    names = [call.item.name for call in ran.getcalls("pytest_runtest_call")]
    assert names == ["test_plain", "test_stacked", "test_by_a_fixture"]
    chosen = pytester.inline_run(*BARE, "-m", "stack", plugins=[Parts(None, None)])
    assert [len(outcomes) for outcomes in chosen.listoutcomes()] == [2, 0, 0]


def test_a_file_of_the_stack_that_does_not_name_it_is_refused(pytester: pytest.Pytester) -> None:
    """By its text it could be in any part, so a second stack would start beside the first."""
    pytester.makeconftest(TESTS.partition("def test_")[0])
    pytester.makepyfile(test_it="def test_by_a_fixture(client): pass")
    ran = pytester.inline_run(*BARE, plugins=[Parts("1/2", None)])
    assert ran.ret == pytest.ExitCode.USAGE_ERROR


def test_other_parts_files_are_not_even_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_one="def test_one(): pass", test_other="raise AssertionError('imported')")
    monkeypatch.setattr(module, "durations", lambda: {"test_one.py": 2.0, "test_other.py": 1.0})
    ran = pytester.inline_run(*BARE, ".", plugins=[Parts("1/2", None)])
    assert [len(outcomes) for outcomes in ran.listoutcomes()] == [1, 0, 0]


def test_seconds_are_added_to_those_of_other_processes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="import time\n\ndef test_long(): time.sleep(0.2)", test_other="")
    file = pytester.path / "durations.json"
    pytester.inline_run(*BARE, plugins=[Parts(None, file)])
    assert json.loads(file.read_text(encoding="utf-8"))["test_it.py"] >= 0.2
    file.write_text(json.dumps({"test_other.py": 5.0, "test_it.py": 90.0}), encoding="utf-8")
    pytester.inline_run(*BARE, plugins=[Parts(None, file)])
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert stored.keys() == {"test_it.py", "test_other.py"}
    assert stored["test_other.py"] == 5.0
    assert stored["test_it.py"] < 90
