"""Options that set fields of a request: their help, type and default are the contract's."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from counterpose._cli.contract_options import Fields, Option, request_options
from counterpose._sync.client import Client
from fakes.command import Play


class Budget(BaseModel):
    """A field of a field."""

    images: int = Field(default=30, ge=1, le=5000, description="Most images.")
    minutes: float | None = Field(default=None, description="Minutes by the clock; null for no limit.")


class Asked(BaseModel):
    """A request with a field of each form."""

    labels: list[str] = Field(description="What the images show.")
    budget: Budget = Field(default=Budget(), description="How much may be spent.")
    way: Literal["near", "far"] = Field(default="near", description="How; `held_out` says more.")
    confirm: bool = Field(default=True, description="Whether to test twice.")
    sweep: list[float] | None = Field(default=None, description="The sweep, or null for the preset's.")
    parents: dict[str, str] = Field(default={}, description="Parents by class.")


def command() -> tuple[typer.Typer, list[Fields]]:
    """A command with an option for each field, and what it was called with."""
    app, seen = typer.Typer(add_completion=False), list[Fields]()

    @app.command()
    @request_options(
        Asked,
        Option("labels", "CLASS", "--label"),
        Option("budget.images", "N"),
        Option("budget.minutes", "M"),
        Option("way", "HOW"),
        Option("confirm"),
        Option("sweep", "SHARE", more="Such as 0.4"),
        Option("parents", "PAIR", "--parent", read=lambda pairs: dict(pair.split("=") for pair in pairs)),
    )
    def ask(fields: Fields, client: Client) -> None:
        seen.append(fields)

    return app, seen


def called(*arguments: str) -> tuple[Any, list[Fields]]:
    app, seen = command()
    return CliRunner().invoke(app, list(arguments)), seen


def helps() -> dict[str, Any]:
    made: Any = typer.main.get_command(command()[0])
    return {each.opts[0]: each for each in made.params if each.name not in ("help", "url")}


def test_the_contract_says_what_an_option_means() -> None:
    assert {flag: each.help for flag, each in helps().items()} == {
        "--label": "What the images show. Repeatable.",
        "--images": "Most images. From 1 to 5,000.",
        "--minutes": "Minutes by the clock; default: no limit.",
        "--way": "How; --held-out says more. One of near, far.",
        "--confirm": "Whether to test twice.",
        "--sweep": "The sweep; default: the preset's. Such as 0.4. Repeatable.",
        "--parent": "Parents by class. Repeatable.",
    }


def test_what_is_left_out_is_the_contract_s_default(play: Play) -> None:
    play()
    done, (fields,) = called("--label", "fly")
    assert done.exit_code == 0
    assert fields == {
        "labels": ["fly"], "budget": {"images": 30}, "way": "near", "confirm": True, "sweep": None,
        "parents": {},
    }  # fmt: skip
    assert Asked.model_validate(fields) == Asked(labels=["fly"])


def test_what_is_given_is_read_as_the_field_s_type(play: Play) -> None:
    play()
    _, (fields,) = called(
        "--label", "fly", "--label", "bee", "--minutes", "1.5", "--way", "far", "--no-confirm",
        "--sweep", "0.4", "--sweep", "1", "--parent", "fly=insect",
    )  # fmt: skip
    assert Asked.model_validate(fields) == Asked(
        labels=["fly", "bee"], budget=Budget(minutes=1.5), way="far", confirm=False, sweep=[0.4, 1.0],
        parents={"fly": "insect"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((), "--label"), (("--label", "a", "--way", "round"), "unknown way 'round': choose from near, far")],
)
def test_a_mistake_is_named_before_the_command_begins(
    play: Play, arguments: tuple[str, ...], named: str
) -> None:
    play()
    done, seen = called(*arguments)
    assert (done.exit_code, seen) == (2, [])
    assert named in done.stderr
