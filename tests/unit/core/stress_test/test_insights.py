"""Insights: how effects are grouped by words, ranked and described."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.stress_test.effects import Effect
from counterpose_core.stress_test.insights import (
    ANY,
    Cluster,
    Group,
    Pattern,
    group_by_words,
    phrase,
    rank_insights,
)


def effect(
    source: int, delta_p: float, removed: str = "grass", added: str = "snow", *, object_class: str = "sled"
) -> Effect:
    item = f"{object_class}-{source}-{removed}-{added}"
    return Effect(item, f"source-{source}", object_class, "background", removed, added, delta_p)


def find_insights(effects: list[Effect]) -> list[Group]:
    return rank_insights(group_by_words(effects))


def patterns(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(group.pattern.removed, group.pattern.added) for group in find_insights(effects)]


@pytest.mark.paper("LANCE-S4.2-insights")
def test_equal_words_on_three_sources_make_one_insight() -> None:
    [group] = find_insights([effect(source, -0.5) for source in range(3)])
    assert group.pattern == Pattern("sled", "background", "grass", "snow")
    assert group.mean == pytest.approx(-0.5)
    assert len(group.means) == 3


def test_two_sources_or_many_edits_of_one_source_make_no_insight() -> None:
    assert find_insights([effect(source, -0.5) for source in range(2)]) == []
    assert find_insights([effect(0, -0.5, removed=f"place {index}") for index in range(9)]) == []


def test_edits_are_grouped_by_added_words() -> None:
    effects = [effect(source, -0.5, removed=f"place {source}") for source in range(3)]
    assert patterns(effects) == [(ANY, "snow")]


def test_edits_are_grouped_by_removed_words() -> None:
    effects = [effect(source, -0.5, added=f"place {source}") for source in range(3)]
    assert patterns(effects) == [("grass", ANY)]


def test_words_shared_by_two_captions_do_not_split_a_group() -> None:
    effects = [effect(0, -0.5, "on the grass"), effect(1, -0.5, "grass", "in the snow"), effect(2, -0.5)]
    assert patterns(effects) == [("grass", "snow")]


def test_a_group_is_described_by_the_words_of_most_captions() -> None:
    pairs = [("on the grass", ANY), ("grass", "in the snow"), ("on the grass", "in the snow")] * 2
    effects = [effect(source, -0.5, *pair) for source, pair in enumerate([*pairs, pairs[2]])]
    told = {(group.pattern.removed, group.pattern.added): group.spoken for group in group_by_words(effects)}
    assert (told["grass", "snow"].removed, told["grass", "snow"].added) == ("on the grass", "in the snow")
    assert (told["grass", ANY].removed, told["grass", ANY].added) == ("on the grass", ANY)


@pytest.mark.parametrize(
    ("removed", "added"),
    [
        ("on", "in front of"),
        ("without a dog", "dog"),
        ("a dog", "the dog"),
        ("tall man with a hat", "short man"),
    ],
)
def test_distinguishing_words_are_kept(removed: str, added: str) -> None:
    assert patterns([effect(source, -0.5, removed, added) for source in range(3)]) == [(removed, added)]


def test_dissimilar_words_are_grouped_by_edit_type() -> None:
    effects = [effect(source, -0.5, f"from {source}", f"to {source}") for source in range(3)]
    assert patterns(effects) == [(ANY, ANY)]


def test_the_worst_insight_comes_first_and_subsumed_ones_are_dropped() -> None:
    snow = [effect(source, -0.6) for source in range(3)]
    sand = [effect(source + 3, -0.2, added="sand") for source in range(3)]
    assert patterns([*sand, *snow]) == [("grass", "snow"), ("grass", "sand")]


def test_helpful_or_negligible_changes_are_not_insights() -> None:
    assert find_insights([effect(source, +0.3) for source in range(5)]) == []
    assert find_insights([effect(source, -0.009) for source in range(5)]) == []


def test_classes_are_grouped_separately() -> None:
    effects = [effect(source, -0.5, object_class=name) for source in range(3) for name in ("sled", "boat")]
    assert {group.pattern.object_class for group in find_insights(effects)} == {"sled", "boat"}


def test_each_source_has_equal_weight_in_a_group() -> None:
    effects = [effect(0, -0.9), effect(1, 0.0), effect(2, 0.0)]
    effects += [
        Effect(f"more-{i}", "source-0", "sled", "background", "grass", "snow", -0.9) for i in range(9)
    ]
    [group] = find_insights(effects)
    assert group.mean == pytest.approx(-0.3)
    assert group.worst.source == "source-0"


def test_every_word_group_is_tested_even_if_harmless() -> None:
    effects = [effect(source, +0.3) for source in range(3)]
    effects += [effect(source + 3, -0.2, added="sand") for source in range(3)]
    formed = {(group.pattern.removed, group.pattern.added) for group in group_by_words(effects)}
    assert formed == {("grass", "snow"), ("grass", "sand"), ("grass", ANY)}


def test_groups_do_not_depend_on_outcomes() -> None:
    hurt = [effect(source, -0.9, f"place {source % 3}") for source in range(9)]
    helped = [replace(found, delta_p=0.5) for found in hurt]
    assert [group.pattern for group in group_by_words(hurt)] == [
        group.pattern for group in group_by_words(helped)
    ]


def test_findings_come_before_hints() -> None:
    snow = [effect(source, -0.2) for source in range(4)]
    sand = [effect(source + 4, -0.9, "path", "sand") for source in range(3)]
    groups = group_by_words([*snow, *sand])
    found = {Pattern("sled", "background", "grass", "snow")}
    assert [group.pattern.added for group in rank_insights(groups)] == ["sand", "snow"]
    assert [group.pattern.added for group in rank_insights(groups, found)] == ["snow", "sand"]


def test_drops_are_measured_from_the_reconstruction_if_there_is_one() -> None:
    effects = [replace(effect(source, -0.5), beyond=0.4 if source else None) for source in range(3)]
    [group] = group_by_words(effects)
    assert group.drops == {"source-1": [0.4], "source-2": [0.4]}


@pytest.mark.parametrize(
    ("removed", "added", "expected"),
    [
        ("grass", "snow", "“grass” becomes “snow”"),
        (ANY, "snow", "“snow” is brought in"),
        ("grass", ANY, "“grass” is taken away or replaced"),
        (ANY, ANY, "the background changes"),
    ],
)
def test_a_pattern_is_printed_as_words(removed: str, added: str, expected: str) -> None:
    assert Pattern("sled", "background", removed, added).in_words() == expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(4, 1)], "red"),
        ([(6, 1), (8, 1)], "on the grass"),
        ([(8, 1), (6, 1)], "on the grass"),
        ([(1, 1), (8, 1)], "photo … grass"),
        ([], ""),
        ([(3, 0)], ""),
        ([(8, 5)], "grass"),
        ([(40, 1)], ""),
    ],
)
def test_a_phrase_bridges_only_short_gaps(runs: list[tuple[int, int]], expected: str) -> None:
    assert phrase("A photo of a red sled on the grass.", runs) == expected


def like_water() -> tuple[list[Effect], Cluster]:
    """Three wet edits that share no word, beside three dry ones of the same kind."""
    wet = [effect(source, -0.5, f"from {source}", f"water {source}") for source in range(3)]
    dry = [effect(source, 0.0, f"at {source}", f"thing {source}") for source in range(3)]
    pattern = Pattern("sled", "background", "from 1", "water 1", changes=3)
    return [*wet, *dry], Cluster(pattern, frozenset(one.item for one in wet))


def test_similar_changes_without_common_words_form_a_group() -> None:
    effects, cluster = like_water()
    [group] = rank_insights(group_by_words(effects, [cluster]))
    assert group.pattern == cluster.pattern
    assert group.mean == pytest.approx(-0.5)
    assert group.pattern.in_words() == "“from 1” becomes “water 1” and changes like it (3 different ones)"


def test_clusters_rank_after_equivalent_words_and_before_edit_types() -> None:
    effects, cluster = like_water()
    everything = replace(cluster, items=frozenset(one.item for one in effects))
    assert ANY not in [group.pattern.removed for group in group_by_words(effects, [everything])]
    snow = [effect(source, -0.5, f"place {source}") for source in range(3)]
    alike = Cluster(replace(cluster.pattern, added="snow"), frozenset(one.item for one in snow))
    assert [group.pattern for group in group_by_words(snow, [alike])] == [
        Pattern("sled", "background", ANY, "snow")
    ]


def test_a_cluster_group_excludes_edits_the_classifier_never_saw() -> None:
    effects, cluster = like_water()
    groups = group_by_words(effects[1:], [cluster])
    assert all(group.pattern.changes == 1 for group in groups)


def test_recurring_words_are_preferred_to_a_worse_cluster_containing_them() -> None:
    water = [effect(source, -0.4, "water", f"place {source}") for source in range(3)]
    others = [effect(source, -0.9, f"lake {source}", f"thing {source}") for source in range(3)]
    pattern = Pattern("sled", "background", "lake 1", "thing 1", changes=6)
    cluster = Cluster(pattern, frozenset(one.item for one in (*water, *others[:2])))
    [first, *_] = rank_insights(group_by_words([*water, *others], [cluster]))
    assert (first.pattern.removed, first.pattern.changes) == ("water", 1)
