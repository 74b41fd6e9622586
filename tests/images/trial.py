"""``make images``: the install steps of the CPU stages in empty environments; the result is run and listed.

python -m images.trial [--stage gateway] [--stage services-cpu] [--resolve]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.contents import list_environment, list_lock
from images.dockerfile import Stage, chain, read_stages
from locks.builds import folders, page

ROOT = Path(__file__).resolve().parents[2]
SBOM = ROOT / "build" / "sbom"
STAGES = read_stages(ROOT / "Dockerfile")
CPU_STAGES = ("gateway", "services-cpu")
RESOLVED = {
    "services-cuda": ("requirements.lock", "services"),
    "vllm": ("requirements-vllm.lock", "vllm==0.32.*"),
}
SYSTEM = re.compile(r"^(apt-get|useradd) ")
"""Steps that change the machine; an image has them, a trial does not."""
FOLDERS = re.compile(r"(?<=[\s'\"])/(wheels|opt)(?=[/\s'\"]|$)")
OTHERS = ("COUNTERPOSE", "PYTHON", "RAY_")
START_S = 120.0
CACHES = shutil.ignore_patterns("__pycache__")
SECRET = "a-secret-of-a-trial-0123456789"


@dataclass(frozen=True)
class Trial:
    """A stage in a folder in place of an image: its environment in ``venv``, its files under ``root``."""

    folder: Path
    stage: Stage

    @property
    def work(self) -> Path:
        """The folder that the image has as its working directory."""
        return self.folder / "opt" / "counterpose"

    def environment(self) -> dict[str, str]:
        """Return the variables of the image, with a state folder of the trial, on loopback."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("COUNTERPOSE", "PYTHON"))
        }
        told = {
            name: value for stage in chain(STAGES, self.stage.name) for name, value in stage.variables.items()
        }
        programs = self.folder / "venv" / "bin"
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.folder)}
        ours = {"COUNTERPOSE_STATE_DIR": str(self.folder / "state")}
        # The image listens on every address; a trial must not.
        hosts = {name: "127.0.0.1" for name in told if name.endswith("_HOST")}
        return kept | told | own | ours | hosts | {"PIP_FIND_LINKS": str(self.folder / "builds.html")}

    def install(self) -> None:
        """Execute the stage's steps and those of the stages that it starts from."""
        self.work.mkdir(parents=True)
        (self.folder / "builds.html").write_text(page(folders()), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], check=True)
        for stage in chain(STAGES, self.stage.name):
            for keyword, rest in stage.instructions:
                if keyword == "COPY":
                    self._copy(rest)
                if keyword == "RUN" and not SYSTEM.match(rest):
                    self.run(FOLDERS.sub(rf"{self.folder}/\1", rest))

    def run(self, command: str, expected: int = 0, **variables: str) -> str:
        """Run a command of the shell as the image would; return what it says.

        Raises:
            SystemExit: it ends with another code than ``expected``.
        """
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.work,
            env=self.environment() | variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        sys.stdout.write(f"{self.stage.name}: {time.monotonic() - started:.1f} s: {command[:90]}\n")
        if done.returncode != expected:
            raise SystemExit(f"{done.stdout[-3000:]}\nexit code {done.returncode}, not {expected}: {command}")
        return done.stdout

    def _copy(self, rest: str) -> None:
        words = rest.split()
        source = None
        if words[0].startswith("--from="):
            source = built(words.pop(0).removeprefix("--from="), self.folder.parent)
        *names, target = words
        for name in names:
            found = source / name.lstrip("/") if source else ROOT / name
            destination = self.folder / target.lstrip("/") if target.startswith("/") else self.work / target
            if found.is_dir():
                shutil.copytree(found, destination, dirs_exist_ok=True, ignore=CACHES)
            else:
                shutil.copy(found, destination)


def built(name: str, parent: Path) -> Path:
    """Return the folder of a stage, whose steps are executed once."""
    folder = parent / name
    if not folder.exists():
        folder.mkdir()
        Trial(folder, STAGES[name]).install()
    return folder


def try_gateway(trial: Trial) -> None:
    """Start the gateway as the image does, and ask the address of its health check."""
    if trial.run("python -c 'import torch'", expected=1).count("ModuleNotFoundError") != 1:
        raise SystemExit("the gateway's stage has torch")
    trial.run("python -c 'import s3fs'")
    port = free_port()
    told = {"COUNTERPOSE_PORT": str(port), "COUNTERPOSE_SECRET": SECRET, "COUNTERPOSE_API_KEYS": SECRET}
    command = [*trial.stage.words("ENTRYPOINT"), *trial.stage.words("CMD")]
    (path,) = re.findall(r"http://127\.0\.0\.1:\d+(/\S+)\"", trial.stage.all_of("HEALTHCHECK")[0])
    program = str(trial.folder / "venv" / "bin" / command[0])
    process = subprocess.Popen([program, *command[1:]], cwd=trial.work, env=trial.environment() | told)
    try:
        wait_for(f"http://127.0.0.1:{port}{path}", process)
    finally:
        process.terminate()
        process.wait(timeout=30)


def try_services(trial: Trial) -> None:
    """Load each service's models and send it a request; refuse to listen beyond loopback without a secret."""
    trial.run("counterpose-services check --load")
    refused = trial.run("counterpose-services up", expected=3, COUNTERPOSE_SERVICES_HOST="0.0.0.0")
    if "COUNTERPOSE_SECRET" not in refused:
        raise SystemExit(f"the services' stage starts without a secret: {refused}")


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return when ``url`` answers with 200.

    Raises:
        SystemExit: it does not, or the process ends.
    """
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    sys.stdout.write(f"{url} answers\n")
                    return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"nothing answers at {url}")


def resolve(name: str, parent: Path) -> None:
    """Let pip find the packages of a stage with CUDA, without installing them."""
    folder = parent / f"{name}-resolved"
    folder.mkdir()
    trial = Trial(folder, STAGES["services-requirements"])
    trial.install()
    lock, wanted = RESOLVED[name]
    chosen = "--requirement services.txt" if wanted == "services" else f"'{wanted}'"
    trial.run(f"pip install --dry-run --quiet --constraint {ROOT / lock} {chosen}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the stages and return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", action="append", choices=CPU_STAGES)
    parser.add_argument("--resolve", action="store_true", help="also resolve the stages with CUDA")
    given = parser.parse_args(arguments)
    tries = {"gateway": try_gateway, "services-cpu": try_services}
    with tempfile.TemporaryDirectory(prefix="counterpose-images-") as parent:
        for name in given.stage or CPU_STAGES:
            trial = Trial(built(name, Path(parent)), STAGES[name])
            tries[name](trial)
            list_environment(trial.folder / "venv" / "bin" / "python", SBOM / f"{name}.cdx.json")
            shutil.rmtree(Path(parent) / name)
        for name in RESOLVED if given.resolve else ():
            resolve(name, Path(parent))
            list_lock(ROOT / RESOLVED[name][0], SBOM / f"{name}.cdx.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
