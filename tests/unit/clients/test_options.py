"""Options that a verb takes as keywords: what is sent of them, and what its signature and help say."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from counterpose._async.bug_hunts import AsyncBugHunts
from counterpose._options import AdversarialOptions, HuntOptions, StressTestOptions
from counterpose._sync.adversarial_datasets import AdversarialDatasets
from counterpose._sync.bug_hunts import BugHunts
from counterpose._sync.stress_tests import StressTests
from fakes.sdk import Session, run_answer


def hunt(client: Any, **options: Any) -> Any:
    return client.bug_hunts.create(classifiers=["leaning"], labels=["fly"], **options)


def test_only_what_the_caller_chose_is_sent(kind: str) -> None:
    session = Session(kind, run_answer())
    session(lambda client: hunt(client, classes=("fly", "bee"), steps=None))
    sent = json.loads(session.seen[0].content)
    # A gateway older than an option takes a request without it.
    assert sent == {"classifiers": ["leaning"], "labels": ["fly"], "classes": ["fly", "bee"], "seed": 0}


def test_repetitions_are_kept_on_request(kind: str) -> None:
    session = Session(kind, run_answer())
    session(
        lambda client: client.adversarial_datasets.create(
            classifiers=["leaning"], dataset="wild", near_duplicates=None
        )
    )
    assert json.loads(session.seen[0].content)["near_duplicates"] is None


def test_an_option_that_does_not_exist_is_no_argument(kind: str) -> None:
    session = Session(kind)
    with pytest.raises(TypeError, match=r"create\(\) got an unexpected keyword argument 'held_outs'"):
        session(lambda client: hunt(client, held_outs=8))
    assert session.seen == []


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (BugHunts.create, HuntOptions),
        (AsyncBugHunts.create, HuntOptions),
        (StressTests.create, StressTestOptions),
        (AdversarialDatasets.create, AdversarialOptions),
    ],
)
def test_signature_and_help_name_every_option(verb: Any, options: Any) -> None:
    parameters = inspect.signature(verb).parameters
    names = set(options.__annotations__)
    assert names <= set(parameters)
    assert {parameters[name].kind for name in names} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(f"    {name}: " in verb.__doc__ for name in names)


def test_the_signature_tells_defaults_and_types() -> None:
    parameters = inspect.signature(BugHunts.create).parameters
    assert str(parameters["held_out"]) == "held_out: 'int' = 96"
    assert parameters["descriptions"].default == ()
    assert parameters["labels"].default is inspect.Parameter.empty
