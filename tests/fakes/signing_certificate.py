"""A certificate for content credentials that a test makes: its chain, and its key, as files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PEM = serialization.Encoding.PEM


class SigningFiles(NamedTuple):
    """Where chain and key are."""

    certificate: Path
    key: Path


def signing_certificate(folder: Path) -> SigningFiles:
    """Make an authority and a certificate of its own that may sign content credentials by ES256."""
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    above = _begun("Test authority", "Test authority", authority.public_key())
    above = above.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    above = above.add_extension(_usage(signs_others=True), critical=True)
    mine = _begun("Test signer", "Test authority", key.public_key())
    mine = mine.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    mine = mine.add_extension(_usage(signs_others=False), critical=True)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
    mine = mine.add_extension(purpose, critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    mine = mine.add_extension(known, critical=False)
    chain = [each.sign(authority, hashes.SHA256()).public_bytes(_PEM) for each in (mine, above)]
    files = SigningFiles(folder / "chain.pem", folder / "key.pem")
    files.certificate.write_bytes(b"".join(chain))
    files.key.write_bytes(
        key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files.key.chmod(0o600)
    return files


def _begun(subject: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Test"),
        ]
    )


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs_others, crl_sign=signs_others, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
