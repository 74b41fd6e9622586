"""What is installed: every file by a hash, nothing that is known to be broken, no pickle that could run."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from locks.advisories import main
from locks.builds import page
from locks.extras import required
from locks.hashes import builds_of
from locks.pins import pins_of, read_pins, written
from manifests.rendering import ROOT

LOCKS = sorted(ROOT.glob("requirements*.lock"))
SOURCES = [file for folder in ("clients", "gateway", "services", "suites", "demo", "integrations")
           for file in (ROOT / folder).rglob("*.py")]  # fmt: skip
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


@pytest.mark.fault("T19")
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_hashes_of_every_pin_and_is_written_back_as_it_is(lock: Path) -> None:
    pins = read_pins(lock)
    assert len(pins) > 100
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []
    assert written(pins) == lock.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text", ["torch>=2\n", "torch @ https://example.com/t.whl\n", "./folder\n", "torch\n"]
)
def test_a_line_that_is_no_pin_is_no_lock(text: str) -> None:
    with pytest.raises(ValueError, match="is no pin"):
        pins_of("a==1\n" + text)


@pytest.mark.fault("T19")
def test_the_lock_has_what_every_extra_and_group_names_and_both_builds_of_torch() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(told["project"]["optional-dependencies"]) - {"all", "mlflow", "hub"}
    wanted = required(told["project"], sorted(extras)) + [
        each for group in told["dependency-groups"].values() for each in group
    ]
    pins = read_pins(ROOT / "requirements.lock")
    assert {canonicalize_name(Requirement(each).name) for each in wanted} <= set(pins)
    # The build for CPUs is of another index; one with CUDA needs these.
    assert "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b" in pins["torch"][1]
    assert {"triton", "nvidia-cublas", "nvidia-cudnn-cu13", "pip", "uv"} <= set(pins)


@pytest.mark.fault("T19")
def test_an_image_installs_wheels_of_known_hash_as_nobody_s_root_on_a_base_of_known_digest() -> None:
    steps = [line for line in DOCKERFILE.splitlines() if line.startswith(("FROM", "USER", "RUN", "ARG"))]
    installs = [line for line in steps if re.search(r"pip\S* (--python \S+ )?install", line)]
    assert len(installs) == 9
    for step in installs:
        local = "--no-index --no-deps /wheels/" in step
        assert local or "--require-hashes --only-binary :all: " in step, step
    users = [line for line in steps if line.startswith("USER")]
    assert users[0] == "USER 10002"
    assert min(map(steps.index, installs)) > steps.index("USER 10002"), "pip runs as root"
    # A tag leads elsewhere tomorrow; without a digest this is no name, and nothing is built.
    assert "FROM ${BASE}@${BASE_DIGEST} AS base" in steps
    assert "ARG BASE_DIGEST" in steps
    assert [line for line in steps if line.startswith("FROM ") and "$" in line] == [steps[2]]


def advisory(**changes: Any) -> dict[str, Any]:
    package = {"name": "Left_Pad", "ecosystem": "PyPI"}
    events = [{"introduced": "1.2"}, {"fixed": "1.4.1"}]
    affected = {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": "MADE-UP-1", "affected": [affected | changes.pop("affected", {})]} | changes


def ranges(*events: dict[str, str], kind: str = "ECOSYSTEM") -> dict[str, Any]:
    return {"affected": {"ranges": [{"type": kind, "events": list(events)}]}}


def judged(folder: Path, capsys: pytest.CaptureFixture[str], *advisories: object) -> tuple[int, str]:
    lock = folder / "requirements.lock"
    lock.write_text(
        "left-pad==1.4.0 \\\n    --hash=sha256:" + "0" * 64 + "\nright-pad==2.0\n", encoding="utf-8"
    )
    known = folder / "advisories"
    known.mkdir()
    for number, each in enumerate(advisories):
        (known / f"{number}.json").write_text(json.dumps(each), encoding="utf-8")
    return main([str(known), str(lock)]), capsys.readouterr().out


@pytest.mark.fault("T19")
def test_a_pin_that_an_advisory_is_about_is_named_with_the_version_that_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = ranges({"introduced": "0"}, {"fixed": "1.4.0"})
    code, told = judged(
        tmp_path, capsys, advisory(), advisory(id="MADE-UP-2", **old),
        advisory(id="MADE-UP-3", withdrawn="2026-11-01T00:00:00Z"),
    )  # fmt: skip
    assert told == "requirements.lock: left-pad==1.4.0: MADE-UP-1, fixed in 1.4.1\n3 advisories, 1 hits\n"
    assert code == 1


@pytest.mark.fault("T19")
@pytest.mark.parametrize(
    ("made", "told"),
    [
        (advisory(**ranges({"introduced": "0"}, {"last_affected": "1.4.0"})), "last affected is 1.4.0"),
        (advisory(**ranges({"introduced": "0"}, {"last_affected": "1.3.9"})), None),
        (advisory(**ranges({"introduced": "0"})), "no fixed version is named"),
        (advisory(**ranges({"introduced": "1.4.1"})), None),
        # Two branches, told in any order: 1.4.0rc1 is before 1.4.0, and 1.10 after it.
        (advisory(**ranges({"fixed": "1.10"}, {"introduced": "1.4rc1"}, {"fixed": "1"}, {"introduced": "0"})),
         "fixed in 1.10"),
        (advisory(**ranges({"introduced": "1"}, {"fixed": "1.3"}, {"introduced": "2"})), None),
        (advisory(affected={"ranges": [], "versions": ["1.4", "odd one"]}), "no fixed version is named"),
        (advisory(affected={"ranges": [], "versions": ["1.3"]}), None),
        (advisory(**ranges({"introduced": "0"}, kind="GIT")), "which names no version; read it"),
        (advisory(affected={"package": {"name": "left-pad", "ecosystem": "npm"}}), None),
        (advisory(affected={"package": {"name": "pad", "ecosystem": "PyPI"}}), None),
    ],
)  # fmt: skip
def test_ranges_and_lists_are_read_as_their_schema_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Any], told: str | None
) -> None:
    code, said = judged(tmp_path, capsys, [made])
    assert (code, said.count("MADE-UP-1")) == ((0, 0) if told is None else (1, 1))
    assert told is None or told in said


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"no": "id"}, "is no advisory"),
        ("text", "is no advisory"),
        (advisory(**ranges({"introduced": "one"})), "MADE-UP-1 cannot be judged"),
        (advisory(affected={"ranges": [{"type": "ECOSYSTEM"}]}), "MADE-UP-1 cannot be judged"),
    ],
)
def test_an_advisory_that_is_not_understood_is_named_and_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: object, told: str
) -> None:
    with pytest.raises(SystemExit, match=told):
        judged(tmp_path, capsys, made)


def test_a_folder_without_advisories_is_no_clean_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="has no file"):
        judged(tmp_path, capsys)


def test_extras_are_printed_with_the_standard_library_alone() -> None:
    command = [sys.executable, "-I", "-S", "tests/locks/extras.py", "gateway", "exports"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"typer>=0.20", "pyarrow>=24", "sqlalchemy>=2.0.40"} <= set(told)
    assert not [each for each in told if each.startswith(("counterpose", "torch"))]


def test_builds_on_the_disk_are_linked_and_locked_by_their_hash(tmp_path: Path) -> None:
    (tmp_path / "Some_Torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"wheel")
    (tmp_path / "notes.txt").write_bytes(b"none")
    told = hashlib.sha256(b"wheel").hexdigest()
    assert builds_of(tmp_path) == {("some-torch", "2.13.0"): {told}}
    (link,) = page([tmp_path]).splitlines()
    assert link.endswith(
        f'linux_x86_64.whl#sha256={told}">Some_Torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl</a>'
    )


def loads(source: str) -> list[str]:
    """The calls of a source that unpickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called == "torch.load":
            found.append(
                "torch.load" if "weights_only=True" in ast.unparse(node) else "torch.load of any code"
            )
        if re.search(
            r"(^|\.)(pickle|joblib|dill|cloudpickle|shelve|marshal)\.(loads?|open|Unpickler)$", called
        ):
            found.append(called)
        if called in ("np.load", "numpy.load") and "allow_pickle=True" in ast.unparse(node):
            found.append(called)
    return found


@pytest.mark.fault("T9")
def test_pickles_are_read_nowhere_but_where_the_page_on_security_says_why() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    found = {str(file.relative_to(ROOT)): loads(file.read_text(encoding="utf-8")) for file in SOURCES}
    reading = {name: calls for name, calls in found.items() if calls}
    assert {call for calls in reading.values() for call in calls} == {"torch.load"}
    assert set(re.findall(r"`([\w/]+\.py)`", page)) == set(reading)


@pytest.mark.parametrize(
    "source",
    ["torch.load(f)", "torch.load(f, weights_only=False)", "pickle.loads(b)", "joblib.load(f)",
     "numpy.load(f, allow_pickle=True)", "pickle.Unpickler(f).load()"],
)  # fmt: skip
def test_a_way_to_run_a_pickle_is_seen(source: str) -> None:
    assert loads(source) not in ([], ["torch.load"])
