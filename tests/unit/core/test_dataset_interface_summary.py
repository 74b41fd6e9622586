"""A dataset interface's summary prints as a short table."""

from __future__ import annotations

from counterpose_core.types import Estimate
from fakes.interface_answers import a_token, an_interface_summary

BY_TOKEN = Estimate(estimate=0.84, low=0.82, high=0.87, n=8)
BY_NAME = Estimate(estimate=0.678, low=0.612, high=0.728, n=6)


def test_each_class_line_has_its_state_images_steps_and_similarity_by_token_and_name() -> None:
    boat = a_token(n_images=24, steps=2500, state="holds", resemblance=BY_TOKEN, name_resemblance=BY_NAME)
    header, line, *_ = str(an_interface_summary(tokens={"boat": boat}, missing={})).splitlines()
    assert header.split() == ["class", "state", "images", "steps", "resemblance", "by", "token", "by", "name"]
    assert line.split()[:4] == ["boat", "holds", "24", "2,500"]
    assert line.endswith("0.840 [0.820, 0.870] (n=8)   0.678 [0.612, 0.728] (n=6)")
    assert line.index("(n=8)") < header.rindex("by name")


def test_a_class_with_an_unreadable_name_has_a_dash() -> None:
    code = a_token(resemblance=BY_TOKEN, name_resemblance=None)
    _, line, *_ = str(an_interface_summary(tokens={"n0153": code}, missing={})).splitlines()
    assert line.endswith(" -")


def test_each_missing_class_has_a_line_with_the_reason() -> None:
    text = str(an_interface_summary(tokens={}, missing={"sled": "the token is not learned yet"}))
    assert text.splitlines()[0] == "missing sled: the token is not learned yet"


def test_no_raw_field_is_printed() -> None:
    text = str(an_interface_summary())
    assert "config" not in text
    assert "dataset_digest" not in text
    assert text.splitlines()[-1].startswith("cost: ")
