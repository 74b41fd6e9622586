"""The fuzzer of costs: its inputs are what they say, each of the same seed is the same, and it goes on."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterpose_core.images.codecs import decode_image, pixel_count
from evaluation.costs import __main__ as program
from evaluation.costs import inputs
from evaluation.costs.trials import TRIALS, Cost


@pytest.mark.parametrize("kind", inputs.FORMATS)
@pytest.mark.parametrize("flat", [True, False])
def test_parts_are_the_whole_file_between_its_head_and_its_end(kind: str, flat: bool) -> None:
    data = inputs.image(kind, np.random.default_rng(0), flat=flat)
    assert decode_image(data).shape == (64, 64, 3)
    parts = inputs.parts_of(kind, data)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(parts))
    assert (parts[0][0], len(data) - parts[-1][1]) in {(8, 0), (12, 0), (2, 2)}


def test_a_progressive_image_has_its_scans_among_its_parts() -> None:
    data = inputs.image("progressive", np.random.default_rng(0))
    scans = [part for part in inputs.parts_of("progressive", data) if data[part[0] + 1] == 0xDA]
    assert len(scans) > 5


@pytest.mark.parametrize("kind", inputs.FORMATS)
def test_changes_are_drawn_by_the_seed(kind: str) -> None:
    for make in (inputs.repeated, inputs.flipped, inputs.cut):
        one, same, other = (make(kind, np.random.default_rng(seed), 0.5) for seed in (1, 1, 2))
        assert one == same != other
        assert len(one) <= inputs.MOST_BYTES + 1_000_000
    assert pixel_count(inputs.widened(kind, np.random.default_rng(0), 1.0)) == 16_000_000


def test_a_head_announces_what_its_strength_says() -> None:
    data = inputs.announced_png(np.random.default_rng(0), 0.5)
    with Image.open(io.BytesIO(data)) as opened:
        assert opened.width == round((2**31 - 1) ** 0.5)


def test_all_formats_and_importers_are_tried() -> None:
    names = " ".join(TRIALS)
    assert all(word in names for word in (*inputs.FORMATS, "tar", "parquet", "names", "withheld", "unread"))


def test_it_goes_on_where_it_stopped_and_tells_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "costs.jsonl"
    rows = [
        Cost(
            trial="tar plain",
            strength=0.5,
            requests=1,
            sent_bytes=10,
            status="done",
            seconds=seconds,
            mebibytes=1.0,
            refused=False,
        ).row()
        for seconds in (0.5, 3.0)
    ]
    state.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("sys.argv", ["costs", "--state", str(state), "--seconds", "0"])
    assert program.main() == 1
    assert "1.5 times: tar plain" in capsys.readouterr().out
    assert len(state.read_text().splitlines()) == 2
