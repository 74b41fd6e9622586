"""The dataset card of an export: its content, how it was made, what was dropped, and its figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined

from counterpose_core.text.plain_text import check_text, strip_invisible
from counterpose_core.types import Estimate
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.layouts import SPLIT, Layout
from counterpose_gateway.exports.records import COLUMNS, SCORES
from counterpose_gateway.reports import numbers

README = "README.md"
MOST_NAMED = 10
"""Values of a column that the card lists; if there are more, it gives their number."""

_LONGEST_TITLE = 200
_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
_LARGEST = "1M<n<10M"
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~])")


@dataclass(frozen=True, kw_only=True)
class Card:
    """The content of a card that does not come from the records.

    ``what`` and ``made`` are Markdown: what the set is for, and how it was made. ``filters`` map a filter, in
    the order of their use, to the share of images that passed it, ``figures`` a figure's name to its value.
    ``license`` is the identifier on the Hub of the user's choice; without one the card leaves it open.
    """

    title: str
    what: str
    made: str
    filters: Mapping[str, Estimate] = field(default_factory=dict)
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    license: str | None = None

    def __post_init__(self) -> None:
        # The title is in YAML, which does not allow control characters.
        check_text(self.title, field="title", most=_LONGEST_TITLE)


def render(card: Card, inventory: Inventory, layout: Layout) -> str:
    """Write the card as Markdown behind the front matter that the Hub reads."""
    counts = inventory.counts
    context = {
        "card": card,
        "front": _front_matter(card, inventory, layout),
        "reading": layout.reading,
        "images": inventory.images,
        "photographs": counts["origin"]["photograph"],
        "operations": counts["origin"]["operation"],
        "classes": len(counts["class_name"]),
        "shifts": [
            (name, counts["shift"][name], len(found)) for name, found in _sorted(inventory.classes_of)
        ],
        "listed": {title: _listed(counts[column]) for column, title in _LISTED.items()},
        "columns": COLUMNS,
        "scores": inventory.scores,
        "scores_column": SCORES,
    }
    return _environment.get_template(f"{README}.j2").render(context)


_LISTED = {
    "image_source": "Image source",
    "model": "Generator",
    "bundle": "Token bundle",
    "verdict": "Verdict",
}


def _sorted(by_name: Mapping[str, set[str]]) -> list[tuple[str, set[str]]]:
    return sorted(by_name.items())


def _listed(counter: Mapping[str, int]) -> str:
    """Values with their counts, the most frequent first."""
    if len(counter) > MOST_NAMED:
        return f"{numbers.count(len(counter))} different"
    by_count = sorted(counter.items(), key=lambda found: (-found[1], found[0]))
    return (
        ", ".join(f"{cell(value)} ({numbers.count(number)})" for value, number in by_count) or numbers.NOTHING
    )


def _front_matter(card: Card, inventory: Inventory, layout: Layout) -> dict[str, str]:
    """The Hub's fields, each as JSON, which is valid YAML with any strings."""
    data_files = [{"split": SPLIT, "path": list(layout.files)}]
    origins = inventory.counts["origin"]
    # Of a run of operations, no model made any.
    only_changed = bool(origins["operation"]) and not (origins["generated"] or origins["edited"])
    fields: dict[str, object] = {
        "pretty_name": card.title,
        "task_categories": ["image-classification"],
        "tags": [*([] if only_changed else ["synthetic"]), "counterpose", "distribution-shift"],
        "annotations_creators": ["machine-generated"],
        "size_categories": [
            next((size for most, size in _SIZES.items() if inventory.images < most), _LARGEST)
        ],
        "configs": [{"config_name": "default", "data_files": data_files}],
    }
    if card.license is not None:
        fields["license"] = card.license
    return {name: json.dumps(value, ensure_ascii=False) for name, value in fields.items()}


def cell(text: str) -> str:
    """Escape a text for a line of Markdown, so that it ends neither cell nor line."""
    return _MARKDOWN.sub(r"\\\1", strip_invisible(" ".join(text.split())))


_environment = Environment(
    loader=PackageLoader("counterpose_gateway.exports", "templates"),
    autoescape=False,  # Markdown is not HTML: `cell` escapes texts from records
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_environment.filters |= {
    "cell": cell,
    "count": numbers.count,
    "decimal": numbers.decimal,
    "percent": numbers.percent,
    "share_interval": numbers.share_interval,
    "stopped": numbers.stopped,
}
