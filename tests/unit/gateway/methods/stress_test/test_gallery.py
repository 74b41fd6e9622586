"""What a card of the report marks as right: the image's own class, and an answer that is as right."""

from __future__ import annotations

from counterpose_core.tasks.classification import ranked
from counterpose_gateway.methods.stress_test.report.gallery import pair
from counterpose_gateway.reports.images import Album
from fakes.results import Ledgered


def marked(rank: int) -> list[str]:
    """The classes that are marked of an answer whose first right class has this rank."""
    item = Ledgered().add("a", edit_type="background")
    said = ranked(0.6, rank, [("boat", 0.5), ("kite", 0.3), ("sled", 0.1)])
    assert item.result is not None
    result = item.result.model_copy(update={"predictions": {"steady": said}})
    (reaction,) = pair((item, result), Album(lambda _: b"", longest=8), "run").reactions
    return [guess.name for guess in reaction.after if guess.correct]


def test_an_answer_that_is_as_right_is_marked_beside_the_images_own_class() -> None:
    assert marked(1) == ["boat", "sled"]


def test_a_wrong_answer_is_not_marked() -> None:
    assert marked(2) == ["sled"]
