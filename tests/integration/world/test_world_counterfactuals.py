"""Changing one attribute changes its own words and pixels, and no random draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose_core.text.caption_diff import difference
from counterpose_miniature.world.grammar import caption, parse, phrase, tokens
from counterpose_miniature.world.nuisance import Stream, nuisance_of
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.sampling import FREE_NUISANCE
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.wording import TEMPLATES

SCENES = st.builds(
    Scene,
    object_class=st.sampled_from(VALUES["object_class"]),
    kind=st.sampled_from(VALUES["kind"]),
    colour=st.sampled_from(VALUES["colour"]),
    background=st.sampled_from(VALUES["background"]),
    weather=st.sampled_from(VALUES["weather"]),
    style=st.sampled_from(VALUES["style"]),
    companion=st.sampled_from(VALUES["companion"]),
    nuisance=st.integers(0, FREE_NUISANCE[1] - 1),
)
CHANGES = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values])
WORDED = tuple(name for name in VALUES if name not in ("kind", "object_class"))
FEW = settings(max_examples=15, deadline=None)
FEWER = settings(max_examples=8, deadline=None)


@FEW
@given(SCENES, CHANGES)
def test_a_counterfactual_keeps_other_attributes_and_nuisances(scene: Scene, change: tuple[str, str]) -> None:
    name, value = change
    after = scene.changed(name, value)
    assert after.attributes() == scene.attributes() | {name: value}
    assert nuisance_of(after.nuisance) == nuisance_of(scene.nuisance)
    assert after.changed(name, getattr(scene, name)) == scene


@FEW
@given(SCENES, st.integers(0, len(TEMPLATES) - 1))
def test_a_caption_is_parsed_back_completely_in_any_case(scene: Scene, template: int) -> None:
    text = caption(scene, template)
    assert parse(text) == parse(text.upper()) == scene.attributes()


@FEW
@given(SCENES, st.sampled_from(WORDED), st.integers(0, len(TEMPLATES) - 1), st.data())
def test_an_edit_changes_only_the_words_of_its_attribute(
    scene: Scene, name: str, template: int, data: st.DataObject
) -> None:
    after = scene.changed(name, data.draw(st.sampled_from(VALUES[name])))
    edit = difference(caption(scene, template), caption(after, template))
    old, new = (phrase(name, getattr(each, name), each.object_class) for each in (scene, after))
    assert set(tokens(edit.removed_text)) <= set(tokens(old))
    assert set(tokens(edit.added_text)) <= set(tokens(new))
    assert edit.is_empty == (scene == after)


@FEWER
@given(SCENES)
def test_a_scene_is_rendered_to_the_same_bytes_in_any_order(scene: Scene) -> None:
    first = render(scene).tobytes()
    render(scene.changed("style", "painting").changed("weather", "rain"))
    assert render(Scene(**scene.attributes(), nuisance=scene.nuisance)).tobytes() == first


@FEWER
@given(SCENES, st.integers(1, 1000))
def test_another_nuisance_gives_another_image_of_the_same_caption(scene: Scene, step: int) -> None:
    other = Scene(**scene.attributes(), nuisance=scene.nuisance + step)
    assert caption(other) == caption(scene)
    assert not np.array_equal(render(other), render(scene))


@FEWER
@given(SCENES)
def test_a_counterfactual_keeps_the_object_s_outline(scene: Scene) -> None:
    outline = object_mask(scene)
    for name in ("colour", "background", "weather", "style", "companion"):
        values = VALUES[name]
        following = values[(values.index(getattr(scene, name)) + 1) % len(values)]
        assert np.array_equal(object_mask(scene.changed(name, following)), outline), name


@pytest.mark.parametrize("seed", range(6))
def test_nuisances_stay_in_their_ranges(seed: int) -> None:
    drawn = nuisance_of(seed)
    assert max(abs(shift) for shift in drawn.place) <= 2.0
    assert 0.88 <= drawn.size <= 1.12
    assert abs(drawn.angle) <= 7.0
    assert max(abs(shift) for shift in drawn.object_palette) <= 10
    assert max(abs(shift) for shift in drawn.scene_palette) <= 8
    assert drawn.companion_side in (-1, 1)
    assert 21.0 <= drawn.horizon <= 27.0


def test_every_nuisance_value_varies_with_the_seed() -> None:
    drawn = [nuisance_of(seed) for seed in range(40)]
    for name in ("place", "size", "angle", "flip", "object_palette", "scene_palette", "companion_side",
                 "companion_jitter", "companion_flip", "horizon"):  # fmt: skip
        assert len({getattr(each, name) for each in drawn}) > 1, name


def test_random_streams_have_distinct_numbers() -> None:
    assert len({int(stream) for stream in Stream}) == len(Stream.__members__)
    draws = {float(nuisance_of(5).generator(stream).random()) for stream in Stream}
    assert len(draws) == len(Stream)
