"""The error tree: one code per leaf, one status per code, and a correct drawing at the top of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from counterpose_core import errors
from counterpose_core.contract.base import Problem
from counterpose_core.errors import CounterposeError, InternalError, error_classes, error_for

DRAWN = re.compile(
    r"^(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +(?P<code>[a-z]+(?:-[a-z]+)*) +(?P<status>\d{3}))?"
)


def descendants(root: type[CounterposeError]) -> Iterator[type[CounterposeError]]:
    """All classes below ``root``, itself first."""
    yield root
    for child in root.__subclasses__():
        yield from descendants(child)


def own_classes() -> list[type[CounterposeError]]:
    """The tree's classes that the product defines."""
    return [cls for cls in descendants(CounterposeError) if cls.__module__.startswith("counterpose_core.")]


def leaves() -> list[type[CounterposeError]]:
    """Classes of the tree that nothing derives from."""
    return [cls for cls in own_classes() if not cls.__subclasses__()]


def drawn() -> list[re.Match[str]]:
    """The lines of the docstring that draw a class."""
    matches = (DRAWN.match(line) for line in (errors.__doc__ or "").splitlines()[2:])
    return [match for match in matches if match is not None]


def test_each_leaf_error_has_its_own_code() -> None:
    codes = [leaf.code for leaf in leaves()]
    assert sorted(codes) == sorted(set(codes))
    assert set(codes) == set(error_classes())


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.code)
def test_each_leaf_error_has_a_valid_code_status_and_title(leaf: type[CounterposeError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", leaf.code)
    assert 400 <= leaf.status <= 599
    assert leaf.title
    assert leaf.__doc__


def test_only_statuses_below_500_blame_the_caller() -> None:
    assert [
        leaf.code for leaf in leaves() if issubclass(leaf, errors.RequestError) and leaf.status >= 500
    ] == []
    assert [
        leaf.code for leaf in leaves() if issubclass(leaf, errors.BackendError) and leaf.status < 500
    ] == []


def test_the_error_tree_lists_every_class_once() -> None:
    assert sorted(match["name"] for match in drawn()) == sorted(cls.__name__ for cls in own_classes())


def test_the_error_tree_gives_each_leaf_its_code_and_status() -> None:
    drawn_codes = {match["name"]: (match["code"], match["status"]) for match in drawn() if match["code"]}
    assert drawn_codes == {leaf.__name__: (leaf.code, str(leaf.status)) for leaf in leaves()}


def test_the_error_tree_puts_each_class_under_its_base() -> None:
    path: list[str] = []
    for match in drawn():
        depth = len(match["branch"]) // 3
        path = [*path[:depth], match["name"]]
        if depth:
            assert getattr(errors, path[-1]).__bases__ == (getattr(errors, path[-2]),)


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_an_error_round_trips_as_the_same_class(code: str) -> None:
    sent = error_for(code, "the item 'x' is at fault", pointer="/items/0")
    received = Problem.model_validate_json(Problem.of(sent).model_dump_json()).error()
    assert type(received) is type(sent) is error_classes()[code]
    assert (received.detail, received.pointer) == (sent.detail, sent.pointer)


def test_the_refusals_of_an_error_round_trip_with_their_codes() -> None:
    parts = [
        errors.ImageTooLarge("too large", pointer="/sources/0/content_base64"),
        errors.ClassMapMismatch("no such label", pointer="/sources/1/label"),
    ]
    sent = errors.InvalidRequest("two are refused", pointer="/sources/0/content_base64", parts=parts)
    received = Problem.model_validate_json(Problem.of(sent).model_dump_json()).error()
    assert (received.detail, received.pointer) == (sent.detail, sent.pointer)
    assert [(type(part), part.detail, part.pointer) for part in received.parts] == [
        (type(part), part.detail, part.pointer) for part in parts
    ]


def test_a_problem_has_the_status_code_and_advice_of_its_class() -> None:
    problem = Problem.of(errors.RateLimited("slow down"), request_id="r1")
    assert (problem.status, problem.code, problem.retryable, problem.request_id) == (
        429,
        "rate-limited",
        True,
        "r1",
    )
    assert problem.type.endswith(problem.code)


def test_an_unknown_code_becomes_an_internal_error() -> None:
    assert type(error_for("no-such-code", "odd")) is InternalError


def test_an_error_without_detail_shows_its_title() -> None:
    assert str(errors.StorageFull()) == errors.StorageFull.title
