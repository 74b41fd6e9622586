"""Datasets that live in the caller's program: torchvision's, Hugging Face's, and arrays."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy
import pytest
import torch
from PIL import Image

from counterpose import Client, DatasetEmpty, InvalidRequest, PayloadTooLarge
from counterpose._datasets.objects import dataset_object
from counterpose._datasets.pixels import encoded
from fakes.sdk import Session, ok, problem

RED = numpy.zeros((4, 6, 3), dtype=numpy.uint8)
RED[..., 0] = 200
NAMES = ["bus", "tram"]
CREATED = {
    "name": "mine", "classes": NAMES, "n_sources": 2, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


class Pairs:
    """A dataset as torchvision's are: a sequence of (image, number) with ``classes``."""

    def __init__(self, *rows: Any, classes: list[str] | None = NAMES) -> None:
        self.rows = rows
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> Any:
        if isinstance(self.rows[at], Exception):
            raise self.rows[at]
        return self.rows[at]


def pixels(content: bytes) -> Any:
    """The pixels of a file's bytes."""
    return numpy.asarray(Image.open(io.BytesIO(content)))


def photo(mode: str = "RGB") -> Image.Image:
    """A PIL image of this mode."""
    return Image.fromarray(RED).convert(mode)


def sent(kind: str, source: Any, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """What an upload returns, and the images that it sent."""
    session = Session(kind, ok(CREATED), ok({"added": 2, "rejected": []}))
    result = session(lambda client: client.datasets.upload(source, name="mine", **options))
    assert json.loads(session.seen[0].content)["name"] == "mine"
    return result, json.loads(session.seen[1].content)["sources"]


def of_torchvision() -> Any:
    return Pairs((photo(), 0), (photo(), 1))


def of_hugging_face() -> Any:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    return datasets.Dataset.from_dict({"image": [photo(), photo()], "label": [0, 1]}, features=features)


def of_undecoded_files() -> Any:
    features = datasets.Features(
        {"photo": datasets.Image(decode=False), "kind": datasets.ClassLabel(names=NAMES)}
    )
    return datasets.Dataset.from_dict({"photo": [photo(), photo()], "kind": [0, 1]}, features=features)


def of_tensors() -> Any:
    return Pairs(*((torch.from_numpy(RED).permute(2, 0, 1) / 255.0, torch.tensor(at)) for at in (0, 1)))


def of_arrays() -> Any:
    return numpy.stack([RED, RED]), numpy.array(NAMES)


SOURCES = [of_torchvision, of_hugging_face, of_undecoded_files, of_tensors, of_arrays]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("made", SOURCES, ids=lambda made: made.__name__)
def test_a_dataset_object_is_sent_with_its_class_names(kind: str, made: Callable[[], Any]) -> None:
    result, sources = sent(kind, made())
    assert (result.added, result.rejected) == (2, [])
    assert [source["label"] for source in sources] == NAMES
    assert [source["filename"] for source in sources] == ["000000.png", "000001.png"]
    for source in sources:
        assert (pixels(base64.b64decode(source["content_base64"])) == RED).all()


def test_classes_of_the_caller_replace_the_object_s_own() -> None:
    _, sources = sent("sync", Pairs((photo(), 1)), classes=["coach", "train"])
    assert sources[0]["label"] == "train"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"])
def test_every_mode_of_pil_becomes_a_file_that_opens(mode: str) -> None:
    assert Image.open(io.BytesIO(encoded(photo(mode), "row 0"))).size == (6, 4)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_array_survives_as_it_is(channels: int) -> None:
    made = numpy.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=numpy.uint8)
    assert (pixels(encoded(made, "row 0")).reshape(made.shape) == made).all()
    assert (pixels(encoded(made / 255.0, "row 0")).reshape(made.shape) == made).all()


def test_a_grey_array_needs_no_channels() -> None:
    assert (pixels(encoded(RED[..., 0], "row 0")) == RED[..., 0]).all()


BAD_IMAGES: dict[str, tuple[Any, str]] = {
    "normalised": (RED / 255.0 * 4 - 2, "values from -2.0 to"),
    "nan": (RED * float("nan"), "values from nan"),
    "large numbers": (RED.astype(int) + 100, "to 300"),
    "channels first": (RED.transpose(2, 0, 1), "shape (3, 4, 6): expected (height, width, channels)"),
    "channels last": (torch.zeros(5, 6, 3), "shape (5, 6, 3): expected (channels, height, width)"),
    "two channels": (RED[..., :2], "1, 3 or 4 channels"),
    "a batch": (RED[None], "shape (1, 4, 6, 3)"),
    "empty": (RED[:0], "shape (0, 6, 3)"),
    "words": (numpy.array([["a"]]), "cannot be read"),
    "a name": ("bus.png", "is a str"),
    "nothing": (None, "is a NoneType"),
    "a lost file": ({"bytes": None, "path": "/absent.png"}, "/absent.png"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_a_first_row_that_is_no_image_is_rejected_before_anything_is_sent(case: str) -> None:
    image, named = BAD_IMAGES[case]
    session = Session("sync")
    with pytest.raises(InvalidRequest) as refused:
        session(lambda client: client.datasets.upload(Pairs((image, 0)), name="mine"))
    assert named in refused.value.detail
    assert "row 0 of the Pairs" in refused.value.detail
    assert session.seen == []


BAD_LABELS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "too large": (2, {}, "label 2, but there are 2 classes"),
    "negative": (-1, {}, "label -1"),
    "unknown name": ("car", {}, "label 'car', which is none"),
    "no names": (0, {"classes": None}, "label 0, but no class has a name"),
    "a fraction": (0.5, {}, "label 0.5"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_a_label_without_a_class_is_named(case: str) -> None:
    label, options, named = BAD_LABELS[case]
    with pytest.raises(InvalidRequest, match="row 0 of the Pairs") as refused:
        dataset_object(Pairs((photo(), label), **options), None)
    assert named in refused.value.detail


def test_later_rows_that_cannot_be_read_are_skipped_and_named() -> None:
    source = Pairs((photo(), 0), (photo(), 7), OSError("truncated"), (None, 1), (photo(), 1), photo())
    result, sources = sent("sync", source)
    assert [row["filename"] for row in sources] == ["000000.png", "000004.png"]
    details = {row.filename: row.detail for row in result.rejected}
    assert list(details) == ["000001.png", "000002.png", "000003.png", "000005.png"]
    assert "row 2 of the Pairs cannot be read: OSError: truncated" in details["000002.png"]
    assert "expected (image, label)" in details["000005.png"]


@pytest.mark.parametrize("source", [3, None, b"bytes", iter([]), {"train": []}])
def test_what_is_no_dataset_is_named(source: Any) -> None:
    with pytest.raises(InvalidRequest, match=type(source).__name__):
        dataset_object(source, None)


def test_several_datasets_in_one_object_need_a_choice() -> None:
    both = datasets.DatasetDict({"train": of_hugging_face(), "test": of_hugging_face()})
    with pytest.raises(InvalidRequest, match="splits"):
        dataset_object(both, None)


def test_a_streamed_dataset_is_named() -> None:
    with pytest.raises(InvalidRequest, match="not streamed"):
        dataset_object(of_hugging_face().to_iterable_dataset(), None)


def test_a_dataset_without_images_lists_its_columns() -> None:
    with pytest.raises(InvalidRequest, match="no image column: it has text, label"):
        dataset_object(datasets.Dataset.from_dict({"text": ["a"], "label": [0]}), NAMES)


def test_arrays_of_different_lengths_are_rejected() -> None:
    with pytest.raises(InvalidRequest, match="2 images, but 1 labels"):
        dataset_object((numpy.stack([RED, RED]), [0]), NAMES)


@pytest.mark.parametrize("source", [Pairs(), (numpy.zeros((0, 4, 6, 3)), [])])
def test_a_dataset_without_rows_is_empty(source: Any) -> None:
    with pytest.raises(DatasetEmpty, match="no rows"):
        dataset_object(source, NAMES)


def test_captions_and_classes_belong_to_what_has_them(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidRequest, match="captions are for folders"):
            client.datasets.upload(of_arrays(), name="mine", captions={"bus/1.png": "a bus"})
        with pytest.raises(InvalidRequest, match="subfolders"):
            client.datasets.upload(tmp_path, name="mine", classes=NAMES)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_ids_among_a_dataset_s_own_classes_become_names_that_are_told(kind: str) -> None:
    own = Pairs((photo(), 0), (photo(), 1), classes=["n02690373", "tram"])
    result, sources = sent(kind, own)
    assert [source["label"] for source in sources] == ["airliner", "tram"]
    assert result.names == {"n02690373": "airliner"}
    result, sources = sent(kind, own, names={"n02690373": "airplane", "tram": "streetcar"})
    assert [source["label"] for source in sources] == ["airplane", "streetcar"]
    # Names that the caller lists are taken as they are.
    result, sources = sent(kind, own, classes=["n02690373", "tram"])
    assert ([source["label"] for source in sources], result.names) == (["n02690373", "tram"], {})


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_batch_that_the_gateway_finds_too_large_is_sent_in_halves(kind: str) -> None:
    large = problem(PayloadTooLarge("the first 2 images have 60 million pixels"))
    one = ok({"added": 1, "rejected": []})
    session = Session(kind, ok(CREATED), large, one, large, one, one)
    source = Pairs(*((Image.fromarray(RED + number), 0) for number in range(3)))
    result = session(lambda client: client.datasets.upload(source, name="mine"))
    batches = [len(json.loads(request.content)["sources"]) for request in session.seen[1:]]
    assert (result.added, batches) == (3, [3, 1, 2, 1, 1])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_one_image_that_the_gateway_finds_too_large_is_told(kind: str) -> None:
    session = Session(kind, ok(CREATED), problem(PayloadTooLarge("the body is larger than the limit")))
    with pytest.raises(PayloadTooLarge, match="larger than the limit"):
        session(lambda client: client.datasets.upload(Pairs((photo(), 0)), name="mine"))
