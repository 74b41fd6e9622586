"""The servers of cut-outs plant what they say, and the script of captions names each other ground once."""

from __future__ import annotations

import base64
import json
import threading

import numpy as np
import pytest
from PIL import Image

from counterpose_core.blobs import digest
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_core.text.edit_instruction import TEMPLATES
from evaluation.preservation.photographs import object_mask
from evaluation.served_editor.cutouts import ARMS, GROUNDS, Compositor, Cutout, edits_of
from fakes.images_server import Asked

CUTOUT = Cutout("a.png", "zebra", Image.new("RGBA", (200, 120), (200, 60, 30, 255)))
SOURCE = CUTOUT.before(GROUNDS[0])
BRICK = CUTOUT.caption.replace(GROUNDS[0], "brick")


def answered(arm: str, edited: str | None) -> tuple[np.ndarray, str]:
    """What a server answers, and the fault that it says it plants."""
    template = TEMPLATES["both-captions"]
    words = {"caption": CUTOUT.caption, "edited": edited, "removed": "grass", "added": "brick"}
    prompt = template.unchanged if edited is None else next(iter(template.texts.values())).format(**words)
    name = digest(encode_raw(SOURCE))
    server = Compositor(arm, {name: CUTOUT})
    fields: dict[str, object] = {"prompt": prompt, "seed": "3"}
    reply = server(Asked("/v1/images/edits", fields, None, image=SOURCE), threading.Event())
    assert reply.status == 200, reply.content
    image = base64.b64decode(json.loads(reply.content)["data"][0]["b64_json"])
    return decode_image(image).astype(int), server.fault(name, GROUNDS[0] if edited is None else "brick")


def moved(image: np.ndarray) -> float:
    """How far the object is right of the middle, as a share of the side."""
    red = np.abs(image - np.array([200, 60, 30])).sum(axis=2) < 60
    middles = [float(np.nonzero(where)[1].mean()) for where in (red, object_mask(CUTOUT.image))]
    return (middles[0] - middles[1]) / len(image)


def test_an_honest_server_changes_the_ground_alone() -> None:
    image, fault = answered("as asked", BRICK)
    assert fault == "none"
    assert np.abs(image - CUTOUT.before("brick")).mean() < 2.0
    assert abs(moved(image)) < 0.005


def test_a_control_has_no_fault_whatever_the_server() -> None:
    for arm in ARMS:
        image, fault = answered(arm, None)
        assert fault == "none"
        assert np.abs(image - SOURCE).mean() < 2.0


def test_a_server_that_moves_does_so_by_the_size_that_it_notes() -> None:
    image, fault = answered("moved", BRICK)
    assert moved(image) == pytest.approx(ARMS["moved"][fault], abs=0.01)


def test_a_server_that_recolours_leaves_the_place() -> None:
    image, fault = answered("recoloured", BRICK)
    assert fault in ARMS["recoloured"]
    inside = object_mask(CUTOUT.image)
    assert np.abs(image - SOURCE)[inside].mean() > 20.0


def test_each_other_ground_is_named_once_and_a_placebo_names_none() -> None:
    texts = [edit.edited_caption for edit in edits_of(CUTOUT.caption, "background", 1)]
    assert sorted(texts) == sorted(CUTOUT.caption.replace(GROUNDS[0], name) for name in GROUNDS[1:])
    [placebo] = edits_of(CUTOUT.caption, "placebo", 1)
    assert placebo.edited_caption == "a picture of a zebra on the grass"
