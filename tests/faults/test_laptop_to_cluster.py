"""The commands of the page "From a laptop to a cluster", as they stand but for addresses and paths."""

from __future__ import annotations

import io
import os
import re
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from PIL import Image

from counterpose_processes.ports import free_port
from fakes.postgres import postgres
from fakes.ray_cluster import ray_cluster
from manifests.rendering import K8S, ROOT

PAGE = (ROOT / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")
PROGRAMS = str(Path(sys.executable).parent)
SHARDS = 2


def commands(heading: str) -> str:
    """Return the commands of a section."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    return "".join(re.findall(r"^```bash\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE))


def executed(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a script of the page in a folder and return what it says."""
    # What it leaves running ends with it.
    ending = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", ending + script],
        cwd=folder,
        env={**environment, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    # So few images give no verdict: exit code 5.
    assert done.returncode in (0, 1, 5), f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def rendered(folder: Path) -> Path:
    """Draw photographs of the miniature world, a folder for each class."""
    photos = folder / "photos"
    draw = [sys.executable, "-m", "counterpose_miniature.training.held_out", str(photos), "--per-class", "2"]
    subprocess.run(draw, check=True, capture_output=True)
    return photos


def packed(photos: Path, folder: Path) -> None:
    """Write the images as the shards of a WebDataset."""
    images = sorted(photos.glob("*/*.png"))[: 4 * SHARDS]
    for number in range(SHARDS):
        with tarfile.open(folder / f"shard-{number:06}.tar", "w") as shard:
            for place, path in enumerate(images[number::SHARDS]):
                png = io.BytesIO()
                Image.open(path).save(png, format="PNG")
                members = {"png": png.getvalue(), "txt": path.parent.name.encode()}
                for suffix, content in members.items():
                    member = tarfile.TarInfo(f"{place:06}.{suffix}")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rendered(tmp_path_factory.mktemp("world"))


@pytest.mark.timeout(600)
def test_one_machine(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").symlink_to(photos)
    ports = {"COUNTERPOSE_PORT": str(free_port()), "COUNTERPOSE_SERVICES_PORT": str(free_port())}
    port, services_port = ports.values()
    script = commands("One machine").replace(
        "counterpose up", f"counterpose up --port {port} --services-port {services_port}"
    )
    own = {
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "COUNTERPOSE_URL": f"http://127.0.0.1:{ports['COUNTERPOSE_PORT']}",
    }
    try:
        executed(script, tmp_path, os.environ | own)
    finally:
        # After a command that failed, too; it says so and does nothing where all is stopped.
        subprocess.run([f"{PROGRAMS}/counterpose", "down"], env=os.environ | own, check=True)
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.timeout(1200)
def test_several_machines(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(16), encoding="utf-8")
    services, gateway = free_port(), free_port()
    with postgres() as server:
        node = {
            "COUNTERPOSE_DATABASE_URL": server.empty_database(),
            "COUNTERPOSE_STORE_URL": str(tmp_path / "store"),
            "COUNTERPOSE_SECRET_FILE": str(secret),
            "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{services}",
            "COUNTERPOSE_IMPORT_FROM": f"file://{tmp_path}/",
            "COUNTERPOSE_STATE_DIR": str(tmp_path / "state"),
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        }
        with ray_cluster(2, environment=node) as cluster:
            here = {
                "postgresql+psycopg://counterpose:PASSWORD@db.example.com/counterpose": node[
                    "COUNTERPOSE_DATABASE_URL"
                ],
                "s3://bucket/store": node["COUNTERPOSE_STORE_URL"],
                "/etc/counterpose/secret": str(secret),
                "http://head.example.com:8101": node["COUNTERPOSE_SERVICES_URL"],
                "http://head.example.com:8265": cluster.dashboard,
                "/etc/counterpose/ray-token": str(cluster.token_file),
                "s3://bucket/": node["COUNTERPOSE_IMPORT_FROM"],
                "SERVICES_HOST=0.0.0.0": f"SERVICES_HOST=127.0.0.1 COUNTERPOSE_SERVICES_PORT={services}",
                "127.0.0.1:8080": f"127.0.0.1:{gateway}",
            }
            script = commands("Several machines")
            for told, meant in here.items():
                assert told in script
                script = script.replace(told, meant)
            own = {
                "COUNTERPOSE_PORT": str(gateway),
                "COUNTERPOSE_URL": f"http://127.0.0.1:{gateway}",
                "COUNTERPOSE_STATE_DIR": node["COUNTERPOSE_STATE_DIR"],
            }
            said = executed(script, tmp_path, os.environ | own)
    assert "8 images" in said or "planned" in said
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_names_overlays_that_are_rendered() -> None:
    named = re.findall(r"kubectl apply --kustomize k8s/(\S+)", PAGE)
    assert named == ["overlays/laptop", "overlays/photographs", "overlays/gpu"]
    assert all((K8S / name / "kustomization.yaml").is_file() for name in named)
