"""Markers are read from the source, name existing ids, and list the tests on the generated pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.evidence import faults, papers
from evaluation.evidence.markers import markers
from evaluation.evidence.pages import outdated, pages

TEST_FILE = """
import pytest

@pytest.mark.parametrize("n", [1])
@pytest.mark.paper("LANCE-X", "DI-Y")
async def test_one(n): ...

@pytest.mark.fault("B1")
@pytest.mark.postgres
def test_two(): ...

def test_three(): ...
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "tests/test_some.py"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    return file.parent


def test_markers_are_read_with_the_tests_that_carry_them(tmp_path: Path) -> None:
    found = markers([written(tmp_path, TEST_FILE)], tmp_path)
    assert found.paper == {
        "LANCE-X": ["tests/test_some.py::test_one"],
        "DI-Y": ["tests/test_some.py::test_one"],
    }
    assert found.fault == {"B1": ["tests/test_some.py::test_two"]}


def test_a_marker_without_a_literal_id_is_refused(tmp_path: Path) -> None:
    text = "import pytest\n\n@pytest.mark.fault(ID)\ndef test_one(): ...\n"
    with pytest.raises(ValueError, match="'ID' is not a literal id"):
        markers([written(tmp_path, text)], tmp_path)


def test_every_marked_row_of_the_papers_exists() -> None:
    assert sorted(set(markers().paper) - {row.id for row in papers.rows()}) == []


def test_every_marked_fault_exists() -> None:
    ids = {name for section in faults.known().values() for name in section}
    assert sorted(set(markers().fault) - ids) == []


def test_only_rows_marked_done_have_tests() -> None:
    covered = markers().paper
    done = {row.id for row in papers.rows() if row.status == "done"}
    assert sorted(done - set(covered)) == []
    assert sorted(set(covered) - done) == []


def test_the_generated_pages_are_current() -> None:
    assert outdated() == []


def test_edited_pages_and_stray_files_are_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page, stray = tmp_path / "page.md", tmp_path / "old.md"
    page.write_text("edited by hand\n", encoding="utf-8")
    stray.write_text("whatever\n", encoding="utf-8")
    monkeypatch.setattr("evaluation.evidence.pages.EVIDENCE", tmp_path)
    monkeypatch.setattr("evaluation.evidence.pages.pages", lambda: {page: "generated\n"})
    assert outdated() == [stray, page]


def test_only_the_test_column_is_replaced() -> None:
    text = (
        "| id | what | value | status | command | test |\n| --- | --- | --- | --- | --- | --- |\n"
        "| A-1 | what it is | | done | `make demo` | `tests/old.py::test_old` |\n"
        "| A-2 | other | 3 | later | - | - |\n\nprose | with | bars\n"
    )
    made = papers.page(text, {"A-1": ["tests/a.py::test_b"]})
    assert made == text.replace("tests/old.py::test_old", "tests/a.py::test_b")


def test_a_fault_without_a_test_says_so() -> None:
    page = faults.page({"B25": ["tests/a.py::test_b"]}, {})
    assert "| B25 | An empty text. | - | `tests/a.py::test_b` |" in page
    assert "| B26 | A text of one megabyte. | - | no test |" in page
    assert "1 of 125" in page


def test_a_fault_that_waits_for_a_product_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {name for section in faults.known().values() for name in section}
    assert set(faults.left_to()) <= ids
    monkeypatch.setattr(faults, "left_to", lambda: {"B61": "signed URLs"})
    page = faults.page({}, {})
    assert (
        "| B61 | A signed URL from a machine with a wrong clock. Left to the issue of signed URLs. | - |"
        in page
    )


def test_ids_of_a_section_start_with_its_letter_and_count_up() -> None:
    sections = {"faults": "F", "bad-inputs": "B", "security": "T"}
    for section, letter in sections.items():
        ids = list(faults.known()[section])
        assert ids == [f"{letter}{number}" for number in range(1, len(ids) + 1)]


def test_pages_contain_no_local_path() -> None:
    root = str(Path(__file__).resolve().parents[4])
    assert [path.name for path, text in pages().items() if root in text] == []
