"""Insights: how effects are grouped by words, ranked and told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultline_core.insights import (
    ANY,
    Cluster,
    Effect,
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


def test_equal_words_on_three_sources_make_one_insight() -> None:
    [group] = find_insights([effect(source, -0.5) for source in range(3)])
    assert group.pattern == Pattern("sled", "background", "grass", "snow")
    assert group.mean == pytest.approx(-0.5)
    assert len(group.means) == 3


def test_two_sources_or_many_edits_of_one_source_make_none() -> None:
    assert find_insights([effect(source, -0.5) for source in range(2)]) == []
    assert find_insights([effect(0, -0.5, removed=f"place {index}") for index in range(9)]) == []


def test_what_is_brought_in_counts_whatever_it_replaces() -> None:
    effects = [effect(source, -0.5, removed=f"place {source}") for source in range(3)]
    assert patterns(effects) == [(ANY, "snow")]


def test_what_is_taken_away_counts_whatever_comes_instead() -> None:
    effects = [effect(source, -0.5, added=f"place {source}") for source in range(3)]
    assert patterns(effects) == [("grass", ANY)]


def test_words_that_two_captions_happen_to_share_split_no_group() -> None:
    effects = [effect(0, -0.5, "on the grass"), effect(1, -0.5, "grass", "in the snow"), effect(2, -0.5)]
    assert patterns(effects) == [("grass", "snow")]


def test_a_group_is_told_in_the_words_that_most_captions_have() -> None:
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
def test_words_that_make_the_difference_stay(removed: str, added: str) -> None:
    assert patterns([effect(source, -0.5, removed, added) for source in range(3)]) == [(removed, added)]


def test_unlike_words_still_speak_for_their_edit_type() -> None:
    effects = [effect(source, -0.5, f"from {source}", f"to {source}") for source in range(3)]
    assert patterns(effects) == [(ANY, ANY)]


def test_the_worst_comes_first_and_what_it_covers_is_not_told_again() -> None:
    snow = [effect(source, -0.6) for source in range(3)]
    sand = [effect(source + 3, -0.2, added="sand") for source in range(3)]
    assert patterns([*sand, *snow]) == [("grass", "snow"), ("grass", "sand")]


def test_changes_that_help_or_hardly_matter_are_no_insight() -> None:
    assert find_insights([effect(source, +0.3) for source in range(5)]) == []
    assert find_insights([effect(source, -0.009) for source in range(5)]) == []


def test_classes_are_kept_apart() -> None:
    effects = [effect(source, -0.5, object_class=name) for source in range(3) for name in ("sled", "boat")]
    assert {group.pattern.object_class for group in find_insights(effects)} == {"sled", "boat"}


def test_a_source_weighs_one_in_a_group() -> None:
    effects = [effect(0, -0.9), effect(1, 0.0), effect(2, 0.0)]
    effects += [
        Effect(f"more-{i}", "source-0", "sled", "background", "grass", "snow", -0.9) for i in range(9)
    ]
    [group] = find_insights(effects)
    assert group.mean == pytest.approx(-0.3)
    assert group.worst.source == "source-0"


def test_every_group_of_words_is_tested_whether_it_hurts_or_not() -> None:
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


def test_what_was_found_comes_before_what_is_only_a_hint() -> None:
    snow = [effect(source, -0.2) for source in range(4)]
    sand = [effect(source + 4, -0.9, "path", "sand") for source in range(3)]
    groups = group_by_words([*snow, *sand])
    found = {Pattern("sled", "background", "grass", "snow")}
    assert [group.pattern.added for group in rank_insights(groups)] == ["sand", "snow"]
    assert [group.pattern.added for group in rank_insights(groups, found)] == ["snow", "sand"]


def test_drops_are_taken_from_the_reconstruction_where_there_is_one() -> None:
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
def test_a_pattern_reads_as_words(removed: str, added: str, expected: str) -> None:
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
def test_a_phrase_bridges_short_gaps_and_no_long_ones(runs: list[tuple[int, int]], expected: str) -> None:
    assert phrase("A photo of a red sled on the grass.", runs) == expected


def like_water() -> tuple[list[Effect], Cluster]:
    """Three wet edits that share no word, beside three dry ones of the same kind."""
    wet = [effect(source, -0.5, f"from {source}", f"water {source}") for source in range(3)]
    dry = [effect(source, 0.0, f"at {source}", f"thing {source}") for source in range(3)]
    pattern = Pattern("sled", "background", "from 1", "water 1", changes=3)
    return [*wet, *dry], Cluster(pattern, frozenset(one.item for one in wet))


def test_changes_that_are_alike_make_a_group_where_their_words_make_none() -> None:
    effects, cluster = like_water()
    [group] = rank_insights(group_by_words(effects, [cluster]))
    assert group.pattern == cluster.pattern
    assert group.mean == pytest.approx(-0.5)
    assert group.pattern.in_words() == "“from 1” becomes “water 1” and changes like it (3 different ones)"


def test_a_cluster_is_told_before_all_edits_of_its_kind_and_after_words_that_say_the_same() -> None:
    effects, cluster = like_water()
    everything = replace(cluster, items=frozenset(one.item for one in effects))
    assert ANY not in [group.pattern.removed for group in group_by_words(effects, [everything])]
    snow = [effect(source, -0.5, f"place {source}") for source in range(3)]
    alike = Cluster(replace(cluster.pattern, added="snow"), frozenset(one.item for one in snow))
    assert [group.pattern for group in group_by_words(snow, [alike])] == [
        Pattern("sled", "background", ANY, "snow")
    ]


def test_edits_of_a_cluster_that_a_classifier_never_saw_are_no_part_of_its_group() -> None:
    effects, cluster = like_water()
    groups = group_by_words(effects[1:], [cluster])
    assert all(group.pattern.changes == 1 for group in groups)


def test_words_that_recur_are_told_rather_than_a_worse_cluster_that_holds_them() -> None:
    water = [effect(source, -0.4, "water", f"place {source}") for source in range(3)]
    others = [effect(source, -0.9, f"lake {source}", f"thing {source}") for source in range(3)]
    pattern = Pattern("sled", "background", "lake 1", "thing 1", changes=6)
    cluster = Cluster(pattern, frozenset(one.item for one in (*water, *others[:2])))
    [first, *_] = rank_insights(group_by_words([*water, *others], [cluster]))
    assert (first.pattern.removed, first.pattern.changes) == ("water", 1)
