"""PIE-Bench's metrics by their published definitions, computed here a second time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from evaluation.pie_bench.metrics import (
    blackened,
    distance_of,
    measured,
    mse,
    psnr,
    ssim,
    to_target,
)

GENERATOR = np.random.default_rng(7)
SOURCE = GENERATOR.integers(0, 256, (24, 20, 3), dtype=np.uint8)
EDITED = np.clip(SOURCE + GENERATOR.normal(0, 12, SOURCE.shape), 0, 255).astype(np.uint8)
MASK = np.zeros(SOURCE.shape[:2], dtype=np.bool_)
MASK[4:14, 3:15] = True


def test_black_pixels_count_as_equal() -> None:
    beside = (SOURCE.astype(float) - EDITED) ** 2 / 255**2 * ~MASK[..., None]
    found = measured(SOURCE, EDITED, MASK, similarity=None)
    assert found["mse"] == pytest.approx(beside.mean())
    assert found["psnr"] == pytest.approx(-10 * math.log10(beside.mean()))


def test_ssim_is_that_of_wang_et_al_within_the_border() -> None:
    steps = np.arange(11) - 5
    line = np.exp(-(steps**2) / (2 * 1.5**2))
    window = np.outer(line, line) / line.sum() ** 2
    first, second = SOURCE / 255.0, EDITED / 255.0
    values = []
    for row in range(5, 24 - 5):
        for column in range(5, 20 - 5):
            for channel in range(3):
                place = np.s_[row - 5 : row + 6, column - 5 : column + 6, channel]
                x, y = first[place], second[place]
                mx, my = (window * x).sum(), (window * y).sum()
                vx, vy = (window * x**2).sum() - mx**2, (window * y**2).sum() - my**2
                both = (window * x * y).sum() - mx * my
                above = (2 * mx * my + 0.01**2) * (2 * both + 0.03**2)
                values.append(above / ((mx**2 + my**2 + 0.01**2) * (vx + vy + 0.03**2)))
    assert ssim(SOURCE, EDITED) == pytest.approx(np.mean(values), abs=1e-9)


def test_an_equal_image_has_no_psnr() -> None:
    assert (psnr(SOURCE, SOURCE), mse(SOURCE, SOURCE)) == (None, 0.0)
    assert ssim(SOURCE, SOURCE) == pytest.approx(1)


def test_an_image_smaller_than_the_window_has_no_ssim() -> None:
    assert ssim(SOURCE[:10], EDITED[:10]) is None


def test_nothing_is_measured_outside_a_mask_of_the_whole_image() -> None:
    found = measured(
        SOURCE, EDITED, np.ones_like(MASK), similarity=lambda image: 0.25, perceptual=lambda _, __: 1.0
    )
    assert {name: found[name] for name in ("psnr", "mse", "ssim", "lpips")} == dict.fromkeys(
        ("psnr", "mse", "ssim", "lpips")
    )
    assert found["clip"] == 25.0


def test_clip_sees_the_whole_image_and_then_its_masked_part_alone() -> None:
    seen = []

    def similarity(image: np.ndarray) -> float:
        seen.append(image)
        return 0.3 if len(seen) == 1 else -0.1

    found = measured(SOURCE, EDITED, MASK, similarity=similarity)
    assert [found["clip"], found["clip_edited"]] == pytest.approx([30.0, 0.0])
    assert np.array_equal(seen[0], EDITED)
    assert np.array_equal(seen[1], blackened(EDITED, MASK))
    assert not seen[1][~MASK].any()


def test_the_users_distances_get_levels_from_0_to_1_and_are_absent_without_them() -> None:
    found = measured(SOURCE, EDITED, MASK, similarity=None)
    assert (found["lpips"], found["structure"]) == (None, None)

    def largest(first: np.ndarray, second: np.ndarray) -> float:
        return float(max(first.max(), second.max()))

    found = measured(SOURCE, EDITED, MASK, similarity=None, structure=largest, perceptual=largest)
    assert found["structure"] == pytest.approx(max(SOURCE.max(), EDITED.max()) / 255)
    assert found["lpips"] == pytest.approx(max(SOURCE[~MASK].max(), EDITED[~MASK].max()) / 255)


def test_the_distance_to_the_true_result_is_of_all_and_of_the_mask() -> None:
    beside = EDITED.copy()
    beside[~MASK] = SOURCE[~MASK]
    found = to_target(EDITED, beside, MASK)
    assert found["target_psnr_edited"] is None
    assert None not in (found["target_psnr"], found["target_ssim"])


def test_a_function_of_the_users_own_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_distance.py").write_text("def apart(a, b):\n    return abs(a - b).mean()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (
        distance_of("py:own_distance:apart")(np.ones((2, 2, 3), np.float32), np.zeros((2, 2, 3), np.float32))
        == 1
    )


@pytest.mark.parametrize("spec", ["lpips", "py:own_distance", "py:no_such_module:apart", "py:math:no_such"])
def test_a_distance_that_is_no_function_is_refused(spec: str) -> None:
    with pytest.raises(InvalidRequest, match=spec.split(":")[-1]):
        distance_of(spec)
