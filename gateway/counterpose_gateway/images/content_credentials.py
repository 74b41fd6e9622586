"""Content credentials (C2PA): a manifest in an exported image, signed with the operator's certificate.

https://spec.c2pa.org, by the library c2pa-python of the extra ``counterpose[c2pa]``. The manifest says that a
model made the image, and which run, item and change it is of. Pixels and all other marks stay as they are.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.installation import adding
from counterpose_core.secret_files import read_secret
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.version import VERSION

PROVENANCE = "org.counterpose.provenance"
"""The assertion that traces an image; C2PA's own say what was done."""
TRACED = ("run", "item", "artifact", "shift", "prompt", "seed", "model", "bundle")
_FORMAT = "image/png"
# A thumbnail would be a second, unmarked copy of the image, and most of the manifest's bytes.
_SETTINGS = {"builder": {"thumbnail": {"enabled": False}}}


class ContentCredentials:
    """Signs PNGs with a certificate and its key.

    Raises:
        InvalidRequest: the extra is not installed, or a file cannot be read or is none of its kind.
    """

    def __init__(self, certificate: Path, key_file: Path, algorithm: str = "es256") -> None:
        self._library = _library()
        try:
            chain, key = certificate.read_bytes(), read_secret(key_file).encode()
        except (OSError, ValueError) as error:
            raise InvalidRequest(f"the certificate of content credentials cannot be read: {error}") from error
        info = self._library.C2paSignerInfo(
            alg=algorithm, sign_cert=chain, private_key=key + b"\n", ta_url=None
        )
        try:
            self._signer = self._library.Signer.from_info(info)
            self._context = self._library.Context(self._library.Settings.from_dict(_SETTINGS))
            # Only a signature shows whether certificate, key and algorithm belong together.
            self.sign(
                encode_png(np.zeros((1, 1, 3), dtype=np.uint8)), GENERATED_SOURCE_TYPE, {"artifact": ""}
            )
        except self._library.C2paError as error:
            raise InvalidRequest(
                f"{str(certificate)!r} and its key sign no content credentials by {algorithm}: {error}"
            ) from error

    def sign(self, png: bytes, source_type: str, told: Mapping[str, object]) -> bytes:
        """Return the image with a signed manifest.

        Args:
            png: the image.
            source_type: IPTC's term for how it was made.
            told: what is known of it, of which `TRACED` is written.
        """
        manifest: dict[str, Any] = {
            "claim_generator_info": [{"name": "Counterpose", "version": VERSION}],
            "title": f"{told['artifact']}.png",
            "assertions": [
                {
                    "label": "c2pa.actions.v2",
                    "data": {"actions": [{"action": "c2pa.created", "digitalSourceType": source_type}]},
                },
                {
                    "label": PROVENANCE,
                    "data": {name: told[name] for name in TRACED if told.get(name) not in (None, "")},
                },
            ],
        }
        signed = io.BytesIO()
        builder = self._library.Builder(manifest, self._context)
        builder.sign(self._signer, _FORMAT, io.BytesIO(png), signed)
        return signed.getvalue()


def _library() -> Any:
    try:
        import c2pa
    except ImportError as error:
        raise InvalidRequest(
            f"COUNTERPOSE_C2PA_CERTIFICATE is set, but c2pa-python is not installed: {adding('c2pa')}"
        ) from error
    return c2pa
