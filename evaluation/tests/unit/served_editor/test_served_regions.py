"""Edits whose true counterfactual leaves the region are left out with a reason; the others are counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpose_core.contract.regions import RegionOfEdits
from counterpose_core.images.codecs import encode_png
from counterpose_core.images.masks import file_mask
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.scene import Scene
from evaluation.served_editor.figures import found_figures, gate_figures
from evaluation.served_editor.oracle import Question, mask_file
from evaluation.served_editor.regions import REGIONS, left_out, region_aims
from evaluation.tests.fakes.served_editor import pair

SCENE = Scene("bus", "plain", "red", "grass", "clear", "photo", "none", nuisance=110_000_007)


def beyond(name: RegionOfEdits, attribute: str, value: str, scene: Scene = SCENE) -> str | None:
    return REGIONS[name].beyond(Question(scene, {attribute: (getattr(scene, attribute), value)}))


def test_what_stays_in_the_region_is_judged() -> None:
    assert beyond("object", "colour", "blue") is None
    assert beyond("background", "companion", "dog") is None
    assert beyond("background", "background", "snow") is None


def test_what_leaves_the_region_has_its_reason() -> None:
    painting = replace(SCENE, style="painting")
    assert beyond("object", "background", "snow") == "background changes what lies elsewhere"
    assert beyond("background", "weather", "night") == "weather changes what lies elsewhere"
    assert beyond("background", "colour", "blue") == "colour changes what lies elsewhere"
    assert beyond("object", "kind", "special", replace(SCENE, object_class="boat")) == (
        "the object has another silhouette"
    )
    assert beyond("background", "background", "snow", painting) == "the painting spreads the change"
    assert beyond("background", "background", "snow", replace(SCENE, object_class="sled")) == (
        "a part of the object, or a gap in it, is narrower than a pixel"
    )


def test_the_mask_that_is_uploaded_is_the_object_with_its_soft_edge() -> None:
    matte = file_mask(mask_file(SCENE), encode_png(render(SCENE)))
    share = object_mask(SCENE)
    assert np.abs(matte / 255 - share).max() < 0.01
    assert ((matte > 0) & (matte < 255)).any()
    inside, outside = (REGIONS[name].allowed(SCENE) for name in ("object", "background"))
    assert (inside == ~outside).all()
    assert (inside == (matte >= 128)).all()


def test_edits_that_leave_the_region_are_counted_by_reason_with_what_the_gate_does() -> None:
    refused = pair("obeys", reason="gate-preservation", faults=["leaked"])
    edits = [
        (pair("obeys", faults=[]), None),
        (refused, "another silhouette"),
        (pair("leak", faults=["leaked"], reason="gate-preservation"), "another silhouette"),
        (pair("obeys"), "elsewhere"),
    ]
    told = left_out(edits)
    assert (told["edits"]["estimate"], told["edits"]["n"]) == (0.75, 4)
    assert told["by reason"] == {"another silhouette": 2, "elsewhere": 1}
    assert told["by what was asked"] == {"colour": told["edits"]}
    assert (
        told["refused, of those as asked for"]["estimate"],
        told["refused, of those as asked for"]["n"],
    ) == (1.0, 1)


def test_an_aim_of_a_region_is_of_its_own_run() -> None:
    refused: dict[str, Any] = {"reason": "gate-preservation", "faults": ["leaked"]}
    good = [pair("leak", **refused), pair("obeys", faults=[])]
    bad = [pair("leak", faults=[]), pair("obeys", **refused)]
    runs = {
        name: {"gate": gate_figures(pairs), "planted in edits": found_figures(pairs)}
        for name, pairs in (("object", good), ("background", bad))
    }
    told = {aim["name"]: aim["met"] for aim in region_aims(runs)}
    assert told["region `object`: edits kept without a fault"] is True
    assert told["region `background`: edits kept without a fault"] is False
    assert told["region `background`: right edits refused"] is False
    assert (told["region `object`: leak, refused"], told["region `background`: leak, refused"]) == (
        True,
        False,
    )
    assert told["region `object`: shift, refused"] is None
