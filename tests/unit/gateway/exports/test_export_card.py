"""The dataset card of an export."""

from __future__ import annotations

import dataclasses
import re
from tempfile import TemporaryFile

import pytest
import yaml

from counterpose_core.errors import InvalidRequest
from counterpose_core.types import Estimate
from counterpose_gateway.exports.card import MOST_NAMED, Card, render
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.layouts import WEBDATASET
from counterpose_gateway.exports.records import Record
from fakes.exports import CARD, record, records
from fakes.store import FakeStore

STORE = FakeStore()


def card_of(made: list[Record], card: Card = CARD) -> str:
    """The card of an export of these records, of which no other file is written."""
    with TemporaryFile() as spool:
        return render(card, Inventory(made, spool), WEBDATASET)


def table_row(text: str, first: str) -> list[str]:
    """The cells of the line of a table that begins with ``first``."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_front_matter_has_the_fields_that_the_hub_requires() -> None:
    _, front, _ = card_of(records(STORE)).split("---\n", 2)
    assert yaml.safe_load(front) == {
        "pretty_name": "Plates in the snow",
        "task_categories": ["image-classification"],
        "tags": ["synthetic", "counterpose", "distribution-shift"],
        "annotations_creators": ["machine-generated"],
        "size_categories": ["n<1K"],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": ["data/*.tar"]}]}],
    }


def test_the_licence_is_left_to_the_user() -> None:
    text = card_of(records(STORE))
    assert "license: choose one" in text
    assert "No licence is stated" in text


def test_a_chosen_licence_appears_in_front_matter_and_text() -> None:
    text = card_of(records(STORE), dataclasses.replace(CARD, license="cc-by-4.0"))
    assert yaml.safe_load(text.split("---\n", 2)[1])["license"] == "cc-by-4.0"
    assert "Licence: cc-by-4.0." in text


def test_the_card_counts_the_images_of_the_export() -> None:
    text = card_of(records(STORE))
    assert table_row(text, "in the snow") == ["in the snow", "12", "3"]
    assert table_row(text, "all") == ["all", "24", "3"]
    assert "A generative model made or changed 24 of 24 images" in text
    assert "- Image source: class-name (12), token (12)" in text
    assert "- Verdict: kept (12), shift (12)" in text
    assert f"- Generator: sd-2@{'b' * 12} (24)" in text


def test_the_card_reports_filter_counts_and_figures_with_interval_and_n() -> None:
    text = card_of(records(STORE))
    assert table_row(text, "object") == ["object", "40", "10", "75.0 %", "60–90 %"]
    assert table_row(text, "drop in the snow") == ["drop in the snow", "0.125", "0.050 to 0.200", "32"]


def test_an_unknown_figure_is_not_shown_as_zero() -> None:
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    card = dataclasses.replace(CARD, filters={"object": nothing}, figures={"drop": nothing})
    text = card_of(records(STORE), card)
    assert table_row(text, "drop") == ["drop", "–", "– to –", "0"]
    assert table_row(text, "object")[3:] == ["–", "–"]


def test_a_card_without_filters_and_figures_says_so() -> None:
    text = card_of(records(STORE), dataclasses.replace(CARD, filters={}, figures={}))
    assert "lists no filter" in text
    assert "lists no figures" in text


def test_names_are_escaped_in_table_and_front_matter() -> None:
    hostile = "a | b\n# <script>`x`\u202e"
    text = card_of([record(STORE, shift=hostile)])
    assert table_row(text, r"a \| b \# \<script\>\`x\`")[1:] == ["1", "1"]


@pytest.mark.parametrize("title", ["", "two\nlines", "a\u0085b", "x" * 201, "\x00"])
def test_a_title_with_characters_illegal_in_yaml_is_refused(title: str) -> None:
    with pytest.raises(InvalidRequest, match="title"):
        dataclasses.replace(CARD, title=title)


@pytest.mark.parametrize("title", ["Plates: \"hot\" & 'cold'", "yes", "- 1", "Teller im Schnee ❄ \U0001f37d"])
def test_a_title_is_always_read_back_as_text(title: str) -> None:
    text = card_of(records(STORE), dataclasses.replace(CARD, title=title))
    assert yaml.safe_load(text.split("---\n", 2)[1])["pretty_name"] == title


def test_long_lists_of_values_are_replaced_by_their_count() -> None:
    made = [record(STORE, bundle=f"bundle-{number}", seed=number) for number in range(MOST_NAMED + 1)]
    assert f"- Token bundle: {MOST_NAMED + 1} different" in card_of(made)
