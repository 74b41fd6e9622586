"""The page about the miniature suite's models and edits, each judged by the oracle or the grammar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from counterpose_core.contract.suite_fit import MEASURES, KnownImages, Measure
from counterpose_core.types import EDIT_TYPES, Estimate
from evaluation.evidence.markdown import cells, figure, page, table
from evaluation.paths import RESULTS

MODELS = RESULTS / "model-quality.json"
CLASSES = 8
PRESETS = ("quick", "direct", "lance", "null-text")
ATTRIBUTES = ("object_class", "kind", "colour", "background", "weather", "style", "companion", "all_jointly")
COLUMNS = ("class", "kind", "colour", "background", "weather", "style", "companion", "all seven at once")
READERS = {
    "text_to_image": "text-to-image, judged by the oracle",
    "text_to_image_withheld": "the same on combinations withheld from training",
    "captioner": "captioner, read by the grammar",
    "oracle_on_renderings": "oracle, on renderings",
}
CAPTIONS = {
    "text_edits_on_own_captions": "the captioner's captions",
    "text_edits_on_withheld_template": "captions of a withheld template",
}
EDIT_COLUMNS = (
    "preset", "images", "edits", "share of planned",
    "changed as asked", "nothing else changed", "label kept", "n",
)  # fmt: skip
Figures = Mapping[str, Mapping[str, Estimate]]
_MODELS: TypeAdapter[Figures] = TypeAdapter(Figures)


class EditQuality(BaseModel):
    """One results/quality-*.json: edits of a stress test judged by the oracle, by edit type."""

    model_config = ConfigDict(frozen=True)

    preset: str
    split: str
    seed: int
    sources: int
    shares_kept: Mapping[str, Estimate] = Field(alias="yield")
    edits: Figures


def read(preset: str, folder: Path = RESULTS) -> EditQuality:
    """Return the figures of a preset."""
    return EditQuality.model_validate_json((folder / f"quality-{preset}.json").read_bytes())


class Outside(BaseModel):
    """Images of one kind, and how many of them lie outside the suite."""

    model_config = ConfigDict(frozen=True)

    outside: Estimate
    by: Mapping[Measure, int]


class KnownImagesFigures(BaseModel):
    """results/known-images.json: what the suite's own images measure at least, and who lies below."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    known_images: KnownImages
    validation: Outside
    uniform: Outside = Field(alias="validation-uniform")
    photographs: Outside


def read_known_images(folder: Path = RESULTS) -> KnownImagesFigures:
    """Return the figures of the calibration."""
    return KnownImagesFigures.model_validate_json((folder / "known-images.json").read_bytes())


def _outside(found: KnownImagesFigures) -> Iterator[list[str]]:
    for title, one in (
        ("validation images as in the demo's datasets", found.validation),
        ("validation images of all attributes alike", found.uniform),
        ("photographs of scikit-image and scikit-learn", found.photographs),
    ):
        yield [title, *(str(one.by[name]) for name in MEASURES), *cells(one.outside)]


def quality_page() -> str:
    """Write the page."""
    models = _MODELS.validate_json(MODELS.read_bytes())
    edits = [read(preset) for preset in PRESETS]
    known = read_known_images()
    drawn, quick = models["text_to_image"]["all_jointly"], edits[0].edits["all"]
    finding = (
        f"Text-to-image shows all seven attributes of its caption in {figure(drawn)} of {drawn.n} images."
        f" Of the edits that the gate keeps under `{edits[0].preset}`, {figure(quick['success'])} show the"
        f" change and {figure(quick['fidelity'])} change nothing else (n = {quick['success'].n})."
    )
    body = [
        "## Each model alone", "", *table(("model", *COLUMNS, "n"), _readers(models)), "",
        "## Edited captions of the perturber", "",
        "An edit succeeds if it consists of whole parts, changes one attribute of its type and keeps all",
        "other words.",
        "\"In its place\" also asks that an added part stands where the caption's template has it.", "",
        *table(("captions", "edit type", "succeeds", "succeeds in its place", "n"), _captions(models)), "",
        "## Edited images", "",
        *table(
            EDIT_COLUMNS,
            (row for one in edits for row in _edits(one)),
        ), "",
        "Share of planned edits that the gate keeps, by type:", "",
        *table(("preset", *EDIT_TYPES, "n of each"), map(_kept, edits)), "",
        "## Images outside the suite", "",
        "A run is stopped early if most of its first images lie outside what the models were trained on:",
        f"below the lowest of 300, by {known.known_images.images} development images, in the likelihood of",
        "the caption, in its CLIP cosine with the image, or in the PSNR of the reconstruction.", "",
        *table(
            ("images", "by the caption's likelihood", "by its cosine", "by the PSNR", "outside", "n"),
            _outside(known),
        ),
    ]  # fmt: skip
    how = [
        "- `python -m evaluation.model_quality --out evaluation/results/model-quality.json`",
        *(
            f"- `python -m evaluation.edit_quality.measure --preset {one.preset}"
            f" --per-class {one.sources // CLASSES} --seed {one.seed}"
            f" --out evaluation/results/quality-{one.preset}.json` ({one.split} images)"
            for one in edits
        ),
        "- `python -m evaluation.edit_quality.calibrate_known_images"
        " --out evaluation/results/known-images.json`",
        "",
        "All scenes are validation scenes. Neither the models nor the gate ever saw the oracle.",
        "Intervals are 95 % Wilson or Clopper-Pearson intervals.",
    ]
    return page("Quality of models and edits", finding, body, how)


def _readers(models: Figures) -> Iterator[list[str]]:
    for name, title in READERS.items():
        found = models[name]
        shares = [f"{found[attribute].estimate:.3f}" for attribute in ATTRIBUTES[:-1]]
        yield [title, *shares, *cells(found["all_jointly"])]


def _captions(models: Figures) -> Iterator[list[str]]:
    for name, title in CAPTIONS.items():
        for edit_type in EDIT_TYPES:
            whole, placed = (models[name][key] for key in (edit_type, f"{edit_type}_in_its_template"))
            yield [title, edit_type, figure(whole), *cells(placed)]


def _edits(one: EditQuality) -> Iterator[list[str]]:
    found, kept = one.edits["all"], one.shares_kept["all"]
    for ending, wording, share in (
        ("", "kept by the gate", figure(kept)),
        ("_unfiltered", "all that were made", "-"),
    ):
        figures = [found[f"{name}{ending}"] for name in ("success", "fidelity", "label")]
        row = [f"`{one.preset}`", str(one.sources), wording, share]
        yield [*row, *map(figure, figures), str(figures[0].n)]


def _kept(one: EditQuality) -> list[str]:
    shares = [one.shares_kept[edit_type] for edit_type in EDIT_TYPES]
    return [f"`{one.preset}`", *map(figure, shares), str(shares[0].n)]
