"""The isolation of unit tests does block network and Ray."""

from __future__ import annotations

import socket
import subprocess

import pytest


def test_a_unit_test_cannot_reach_the_network() -> None:
    with socket.socket() as one, pytest.raises(AssertionError, match="connects"):
        one.connect(("192.0.2.1", 80))


def test_a_unit_test_cannot_start_ray() -> None:
    with pytest.raises(AssertionError, match="Ray"):
        subprocess.run(["/opt/gcs_server", "--port=0"], check=True)


def test_a_unit_test_can_connect_to_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
