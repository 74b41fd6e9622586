"""Files over HTTPS: only public addresses are dialled, whatever names and redirects lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpcore
import pytest

from counterpose_core.errors import ImportRefused, ShardUnreadable
from counterpose_gateway.imports import guarded_https
from counterpose_gateway.imports.guarded_https import HttpsFiles
from counterpose_http.outbound import Backend, is_public

PUBLIC = "93.184.216.34"
URL = "https://images.example/a.tar"


class _Stream(httpcore.MockStream):
    """Takes whatever it is sent."""

    def get_extra_info(self, info: str) -> Any:
        return self if info == "socket" else None

    def settimeout(self, seconds: float | None) -> None:
        pass

    def send(self, content: memoryview) -> int:
        return len(content)


class Servers(httpcore.NetworkBackend):
    """Answers each connection with the next bytes, and notes what was dialled."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self.dialled: list[str] = []

    def connect_tcp(self, host: str, *args: object, **options: object) -> httpcore.NetworkStream:
        self.dialled.append(host)
        return _Stream([self._answers.pop(0)])


def files(servers: Servers, addresses: Mapping[str, str]) -> HttpsFiles:
    return HttpsFiles(Backend(lambda host, _: [addresses[host]], servers))


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{told}connection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.9", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1",
     "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "2002:7f00:1::", "224.0.0.1",
     "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:5", "::ffff:0:10.0.0.1", "::127.0.0.1",
     "fec0::1", "168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110",
     "192.0.0.192", "::ffff:192.0.0.192", "64:ff9b::c000:c0", "192.88.99.1", "100.100.100.200", "240.0.0.1",
     "2606:4700::5efe:a00:5", "2606:4700::200:5efe:10.0.0.5", "2001::a00:5", "5f00::1", "4000::1", "fb00::1",
     "fe00::1", "3fff::1", "100:0:0:1::1", "fd00:ec2::254", "2002:a83f:8110::", "ff0e::1"],
)  # fmt: skip
def test_a_private_address_is_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public(PUBLIC)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "::ffff:8.8.8.8", "2606:4700::5efe:8.8.8.8"],
)
def test_a_public_address_stays_public_behind_a_translator(address: str) -> None:
    assert is_public(address)


def test_a_name_that_leads_to_a_private_network_is_not_dialled() -> None:
    servers = Servers([])
    with pytest.raises(ImportRefused, match=r"has no public address; private"):
        files(servers, {"images.example": "10.0.0.5"}).stamp(URL)
    assert servers.dialled == []


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "fd00::5", "64:ff9b::a00:5", "::ffff:10.0.0.5"]
)
@pytest.mark.parametrize("redirected", [False, True])
def test_who_asks_for_an_inner_host_is_told_no_address_and_not_whether_anything_answers(
    address: str, redirected: bool
) -> None:
    servers = Servers([answer("302 Found", location="https://inside.example:8443/b.tar")])
    of = {"images.example": PUBLIC if redirected else address, "inside.example": address}
    with pytest.raises(ImportRefused) as refused:
        files(servers, of).stamp(URL)
    assert address not in refused.value.detail
    host = "inside.example" if redirected else "images.example"
    assert refused.value.detail == f"the host {host!r} has no public address; private ones are not called"


def test_the_address_that_was_looked_at_is_the_one_that_is_dialled() -> None:
    # A name that answers otherwise at a second look-up would be dialled by its name.
    servers = Servers([answer("200 OK", content_length="5", etag='"1"')])
    assert files(servers, {"images.example": PUBLIC}).stamp(URL) == '5 "1" '
    assert servers.dialled == [PUBLIC]


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://inside.example/a.tar", "has no public address"),
        ("http://images.example/a.tar", "is not https"),
    ],
)
def test_a_redirect_to_a_private_network_or_out_of_https_is_not_followed(location: str, told: str) -> None:
    servers = Servers([answer("302 Found", location=location)])
    guarded = files(servers, {"images.example": PUBLIC, "inside.example": "169.254.169.254"})
    with pytest.raises(ImportRefused, match=told):
        guarded.stamp(URL)
    assert servers.dialled == [PUBLIC]


def test_a_file_is_read_on_from_where_a_jump_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_https, "BUFFER", 1)
    head = answer("200 OK", content_length="10")
    whole = answer("200 OK", b"0123456789", content_length="10")
    rest = answer("206 Partial Content", b"xyz", content_length="3")
    with files(Servers([head, whole, rest]), {"images.example": PUBLIC}).open(URL) as opened:
        assert opened.read(2) == b"01"
        opened.seek(7)
        # Of the second request, not of what the first one would have gone on with.
        assert opened.read() == b"xyz"


HEAD = answer("200 OK", content_length="10")


@pytest.mark.parametrize(
    ("answers", "error", "told"),
    [
        ([answer("404 Not Found")], FileNotFoundError, "does not exist"),
        ([answer("503 Busy")], OSError, "answers 503"),
        ([HEAD, answer("200 OK", b"012", content_length="3")], OSError, "ended after 3 of 10"),
    ],
)
def test_a_file_that_cannot_be_read_whole_is_an_error(
    answers: list[bytes], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        files(Servers(answers), {"images.example": PUBLIC}).open(URL).read()


def test_a_server_that_serves_no_part_of_a_file_is_named() -> None:
    servers = Servers([HEAD, answer("200 OK", b"0123456789", content_length="10")])
    opened = files(servers, {"images.example": PUBLIC}).open(URL)
    opened.seek(5)
    with pytest.raises(ShardUnreadable, match="no part of a file"):
        opened.read()
