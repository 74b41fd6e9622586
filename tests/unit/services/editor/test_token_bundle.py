"""Token bundles round-trip, and other bytes are refused with a reason."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.tokens import TokenDescription
from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_services.editor.tokens.files import TOKEN_KIND, TokenBundle, pack_bundle, unpack_bundle

SD_2 = ModelIdentity(id="stabilityai/stable-diffusion-2", revision="2" * 64)
TOLD = TokenDescription(
    class_name='gyromitra, "false morel" \u00e9',
    initialiser="gyromitra",
    model=SD_2,
    width=6,
    vectors=2,
    steps=3000,
    pin_norm=True,
    templates="object",
    images=24,
    data_digest="d" * 64,
    seed=3,
)
BUNDLE = TokenBundle(torch.arange(12, dtype=torch.float32).reshape(2, 6), TOLD)


def test_a_bundle_round_trips() -> None:
    found = unpack_bundle(pack_bundle(BUNDLE))
    assert found.vectors.equal(BUNDLE.vectors)
    assert found.description == TOLD


def test_equal_bundles_give_identical_bytes() -> None:
    doubled = TokenBundle(BUNDLE.vectors.double().T.contiguous().T, TOLD)
    assert pack_bundle(doubled) == pack_bundle(BUNDLE)


@pytest.mark.fault("B46")
def test_a_bundle_of_another_width_is_refused_with_both_widths() -> None:
    with pytest.raises(InvalidRequest, match=r"has width 6,.*has width 768"):
        BUNDLE.require_fit(ModelIdentity(id="CompVis/stable-diffusion-v1-4", revision="1" * 64), 768)


@pytest.mark.fault("B46")
def test_a_bundle_of_another_model_of_equal_width_is_refused_with_both_names() -> None:
    other = ModelIdentity(id="somebody/else", revision=SD_2.revision)
    with pytest.raises(
        InvalidRequest, match=r"for 'stabilityai/stable-diffusion-2', not for 'somebody/else'"
    ):
        BUNDLE.require_fit(other, 6)


def test_a_bundle_of_another_revision_of_the_model_is_accepted() -> None:
    BUNDLE.require_fit(SD_2.model_copy(update={"revision": "3" * 64}), 6)


def described(**changes: object) -> dict[str, str]:
    return {TOKEN_KIND: json.dumps(TOLD.model_dump(mode="json") | changes)}


WHOLE = {"vectors": BUNDLE.vectors}
REFUSED = {
    "no bytes": (b"", "not safetensors"),
    "a pickle": (b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.", "not safetensors"),
    "half of it": (pack_bundle(BUNDLE)[:-9], "not safetensors"),
    "no description": (save(WHOLE), f"do not describe a {TOKEN_KIND}"),
    "another description": (save(WHOLE, metadata={"other": "{}"}), f"do not describe a {TOKEN_KIND}"),
    "no JSON in it": (save(WHOLE, metadata={TOKEN_KIND: "{"}), f"do not describe a {TOKEN_KIND}"),
    "a field missing": (save(WHOLE, metadata={TOKEN_KIND: "{}"}), "description is invalid"),
    "another version": (save(WHOLE, metadata=described(format=2)), "version 2, not 1"),
    "another width described": (save(WHOLE, metadata=described(width=7)), "2 vectors of 7"),
    "another name of the tensor": (save({"emb": BUNDLE.vectors}, metadata=described()), "2 vectors of 6"),
    "half precision": (save({"vectors": BUNDLE.vectors.half()}, metadata=described()), "2 vectors of 6"),
    "NaN": (save({"vectors": BUNDLE.vectors * torch.nan}, metadata=described()), "not finite"),
}  # fmt: skip


@pytest.mark.fault("B46")
@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_bundle_is_refused_with_a_reason(case: str) -> None:
    data, reason = REFUSED[case]
    with pytest.raises(ModelFormatRefused, match=reason):
        unpack_bundle(data)


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert unpack_bundle(save(WHOLE, metadata=described(learned_by="somebody"))).description == TOLD
