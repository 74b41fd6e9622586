"""The whole measurement on few pairs: who takes part, what is measured, and that it goes on where it was."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.errors import CounterposeError, InvalidRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import Suite, load_suite
from counterpose_services.settings import ServiceSettings
from evaluation.edit_quality.editing import Editing
from evaluation.pie_bench.__main__ import main
from evaluation.pie_bench.contestants import OfOperation, OfPreset, OfTruth, contestants_of
from evaluation.pie_bench.data import Pair, encoded, read_pairs, read_pixels
from evaluation.pie_bench.world import write
from fakes.images_server import Asked, Reply, drawing, images_server, refusal

SUITE = load_suite("miniature")


def test_an_unknown_preset_or_operation_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    settings = ServiceSettings.model_validate({"state_dir": tmp_path})
    with pytest.raises(InvalidRequest, match="has no preset 'quickest'"):
        contestants_of(SUITE, ["quickest"], [], settings, truth=False)
    with pytest.raises(CounterposeError, match="no-such"):
        contestants_of(SUITE, [], ["no-such=2"], settings, truth=False)
    with pytest.raises(InvalidRequest, match="needs the object's mask"):
        contestants_of(SUITE, [], ["background-blur=1"], settings, truth=False)
    named = contestants_of(SUITE, ["quick"], ["rotation=2"], settings, truth=True)
    assert [each.name for each in named] == ["quick", "transform:rotation=2", "true-target"]


@pytest.mark.parametrize("wrong", ["quick=", "quick=0", "quick=many"])
def test_a_preset_takes_a_number_of_pairs(tmp_path: Path, wrong: str) -> None:
    write(tmp_path, 8)
    with pytest.raises(InvalidRequest, match="takes a number of pairs"):
        main([str(tmp_path), "--preset", wrong, "--out", str(tmp_path / "edits.json")])


def test_an_operation_is_a_control_that_repeats(tmp_path: Path) -> None:
    source = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    pair = Pair("1", "1", tmp_path, "", "", encoded(np.zeros((64, 64), dtype=np.bool_)))
    noisy = OfOperation("gaussian-noise=1").edited(pair, source).image
    assert not np.array_equal(noisy, source)
    assert np.array_equal(noisy, OfOperation("gaussian-noise=1").edited(pair, source).image)
    assert np.array_equal(OfOperation("identity").edited(pair, source).image, source)
    with pytest.raises(InvalidRequest, match="no true result"):
        OfTruth().edited(pair, source)


def test_a_measurement_that_was_ended_goes_on_and_is_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "world", 31)
    edits: list[str] = []
    whole = OfPreset.edited

    def counted(self: OfPreset, pair: Pair, source: Any) -> Any:
        edits.append(pair.id)
        return whole(self, pair, source)

    monkeypatch.setattr(OfPreset, "edited", counted)
    asked = [str(tmp_path / "world"), "--preset", "quick=2", "--transform", "identity", "--pairs", "3"]

    def figures(state: str, *more: str) -> Any:
        out = tmp_path / "edits.json"
        main([*asked, *more, "--state", str(tmp_path / state), "--out", str(out)])
        found = json.loads(out.read_bytes())
        for one in found["contestants"].values():
            one["costs"] = {}
        return found

    assert figures("first", "--seconds", "0")["contestants"] == {}
    first = figures("first")
    assert len(edits) == 2
    assert figures("first") == first
    assert len(edits) == 2
    assert figures("second") == first
    quick, control, truth = (
        first["contestants"][name] for name in ("quick", "transform:identity", "true-target")
    )
    assert (quick["pairs"], control["pairs"], truth["pairs"]) == (2, 3, 3)
    assert control["shares"]["success"]["estimate"] == 0
    assert control["metrics"]["mse"]["estimate"] == 0
    assert truth["shares"]["success"]["estimate"] == 1
    assert "psnr" in quick["metrics"]
    assert first["absent"].keys() == {"structure", "lpips"}
    assert first["data"]["missing"].keys() == {"5", "7"}
    # Of the pairs that both have: the source again is nearer to itself than any edit is.
    assert first["differences"]["transform:identity"]["mse"]["estimate"] <= 0


def test_a_server_of_images_is_measured_like_any_preset_and_what_it_refuses_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "world", 31)
    calls = itertools.count()

    def answer(asked: Asked, closing: threading.Event) -> Reply:
        if next(calls) == 0:
            return refusal(400, "moderation_blocked")
        assert asked.image is not None
        # Twice as large, and nothing else.
        return drawing(encode_png(np.repeat(np.repeat(asked.image, 2, axis=0), 2, axis=1)))

    suite = tmp_path / "api.toml"
    with images_server(answer) as server:
        monkeypatch.setenv("COUNTERPOSE_SERVICES_IMAGES_HOSTS", f"127.0.0.1:{server.port}")
        suite.write_text(
            'base = "miniature"\nname = "api"\n[editor]\nmodel = "editor-1"\nresolution = 64\n'
            f'server = "{server.url}"\ndefault_preset = "api"\n'
            '[editor.presets.api]\nbackend = "images-api"\n',
            encoding="utf-8",
        )
        out = tmp_path / "edits.json"
        words = [
            "--suite",
            str(suite),
            "--preset",
            "api=4",
            "--state",
            str(tmp_path / "state"),
            "--out",
            str(out),
        ]
        main([str(tmp_path / "world"), *words, "--pairs", "4"])
    found = json.loads(out.read_bytes())["contestants"]["api"]
    assert (found["pairs"], found["refused"], found["resized"]) == (4, {"policy-refused": 1}, 3)
    assert found["metrics"]["clip"]["n"] == 3
    # It does not reconstruct, and it left the rest nearly as it was.
    assert "reconstruction_psnr" not in found["metrics"]
    assert found["metrics"]["ssim"]["estimate"] > 0.9


def bounded(name: str, **changes: object) -> Suite:
    """The suite with one preset, a changed copy of this one."""
    preset = SUITE.editor.presets[name].model_copy(update=changes)
    editor = SUITE.editor.model_copy(update={"presets": {name: preset}})
    return SUITE.model_copy(update={"editor_part": editor})


@pytest.mark.parametrize("region", ["background", None])
def test_a_preset_with_a_region_edits_within_the_mask_of_the_pair(tmp_path: Path, region: str | None) -> None:
    write(tmp_path / "world", 8)
    pair = next(each for each in read_pairs(tmp_path / "world") if not each.mask((64, 64)).all())
    mask, source = pair.mask((64, 64)), read_pixels(pair.image)
    settings = ServiceSettings.model_validate({"state_dir": tmp_path})
    preset = OfPreset(bounded("quick", region=region), "quick", settings)
    other = replace(pair, edited_caption=pair.caption)
    one, none = (preset.edited(each, source).image for each in (pair, other))
    assert not np.array_equal(one[mask], none[mask])
    assert np.array_equal(one[~mask], none[~mask]) is (region is not None)
    assert (preset.key == f"{SUITE.name} {preset._preset.model_dump_json()}") is (region is None)


def test_a_preset_with_a_region_needs_masks(tmp_path: Path) -> None:
    suite = bounded("quick", region="object")
    editing = Editing(suite, suite.editor.presets["quick"], tmp_path)
    with pytest.raises(InvalidRequest, match=r"edits within 'object'.*has no mask"):
        editing.chosen(encode_png(np.zeros((64, 64, 3), dtype=np.uint8)), [("a", "b")])
