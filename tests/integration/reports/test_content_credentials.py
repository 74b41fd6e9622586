"""Content credentials: exported images that the library's own reader takes for signed and unaltered."""

from __future__ import annotations

import io
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import c2pa
import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.installation import adding
from counterpose_gateway.images.content_credentials import PROVENANCE, ContentCredentials
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import fake_gateway
from fakes.signing_certificate import signing_certificate

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip
EDIT = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
GENERATED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"


def read(png: bytes) -> tuple[str, dict[str, Any]]:
    """What the library says of an image: its state, and the assertions of its manifest by label."""
    with c2pa.Reader("image/png", io.BytesIO(png)) as reader:
        manifest = reader.get_active_manifest()
        return reader.get_validation_state(), {each["label"]: each["data"] for each in manifest["assertions"]}


@pytest.mark.fault("T20")
async def test_exported_images_are_signed_and_say_what_made_them(tmp_path: Path) -> None:
    files = signing_certificate(tmp_path)
    settings: dict[str, Any] = {"c2pa_certificate": files.certificate, "c2pa_key_file": files.key}
    async with fake_gateway(tmp_path, **settings) as gateway:
        await gateway.upload("demo", 1)
        run = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
        await gateway.worker().work_off()
        answer = await gateway.http.get(f"/v1/runs/{run}/export", params={"layout": "fiftyone"})
        items = {item.id: item for item in gateway.ledger.items.all(run)}
        names = images_of(answer.content)
        signed = {name: png for name, png in names.items() if "_sources" not in name}
        sources = [png for name, png in names.items() if "_sources" in name]
        assert signed
        for png in signed.values():
            state, told = read(png)
            item = items[told[PROVENANCE]["item"]]
            assert state == "Valid"
            assert told["c2pa.actions.v2"]["actions"][0]["digitalSourceType"] == EDIT
            assert told[PROVENANCE]["run"] == run
            assert told[PROVENANCE]["shift"] == item.edit_type
            assert item.result is not None
            assert told[PROVENANCE]["artifact"] == item.result.image
            stored = decode_image(gateway.store.get(item.result.image))
            assert (decode_image(png) == stored).all()
    # A photograph was not made by a model.
    for png in sources:
        with pytest.raises(c2pa.C2paError, match="ManifestNotFound"):
            read(png)


def images_of(archive: bytes) -> dict[str, bytes]:
    """The PNGs of a tar by name."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {member.name: tar.extractfile(member) for member in tar if member.name.endswith(".png")}
        return {name: file.read() for name, file in found.items() if file is not None}


def test_an_altered_image_is_not_valid_any_more(tmp_path: Path) -> None:
    files = signing_certificate(tmp_path)
    credentials = ContentCredentials(files.certificate, files.key)
    png = encode_png(np.zeros((8, 8, 3), dtype=np.uint8))
    signed = bytearray(credentials.sign(png, GENERATED, {"artifact": "a" * 64, "run": "r"}))
    assert read(bytes(signed))[0] == "Valid"
    signed[-20] ^= 1
    assert read(bytes(signed))[0] == "Invalid"


def test_without_the_extra_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = signing_certificate(tmp_path)
    monkeypatch.setitem(sys.modules, "c2pa", None)
    with pytest.raises(InvalidRequest, match=re.escape(adding("c2pa"))):
        ContentCredentials(files.certificate, files.key)


def test_files_that_sign_nothing_are_refused_by_name(tmp_path: Path) -> None:
    files, other = signing_certificate(tmp_path), tmp_path / "other.pem"
    with pytest.raises(InvalidRequest, match=r"other\.pem"):
        ContentCredentials(other, files.key)
    other.write_text("no certificate", encoding="utf-8")
    other.chmod(0o600)
    for certificate, key in ((other, files.key), (files.certificate, other)):
        with pytest.raises(InvalidRequest, match="sign no content credentials"):
            ContentCredentials(certificate, key)
    files.key.chmod(0o644)
    with pytest.raises(InvalidRequest, match="every user can read"):
        ContentCredentials(files.certificate, files.key)
    with pytest.raises(ValueError, match="belong together"):
        GatewaySettings(c2pa_certificate=files.certificate)
