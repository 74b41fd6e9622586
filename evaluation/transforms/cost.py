"""Hold the processor time of a stress test of operations against a plain script: `make bench-photographs`.

    python -m evaluation.transforms.cost FOLDER_OF_PHOTOGRAPHS [--images 200] [--rounds 2]

Cuts so many pieces of 640 x 480 pixels out of the photographs, and has a stack with the suite `photographs`
test two networks of random weights on them with all operations at level 3; in turn, the plain script goes
through the same images with the same networks. Counted are the processor seconds of the product's processes
(gateway, worker, services, Ray and its dashboard) while the run goes on, beside the script's, and the memory
of the processes after each third of the run: `evaluation/results/photographs-cost.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Before timm, which loads torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
from PIL import Image
from safetensors.torch import save_file
from tqdm import tqdm

from counterpose import Client
from counterpose._stack.stack import Stack
from counterpose_processes.ports import free_port
from evaluation.benchmarks.machine import this_machine
from evaluation.benchmarks.report import EditorBenchmark, Row, at_most, row
from evaluation.paths import RESULTS
from evaluation.product_speed.cold_start import memory_bytes
from evaluation.product_speed.contestant import processor_seconds
from evaluation.transforms.plain_operations import SEED

CLASSES = ("left", "right")
WIDTH, HEIGHT = 640, 480
LEVEL = 3
NETWORKS = {"tf_efficientnet_lite0": 2.0, "resnet50": 1.3}
"""The most that the product may cost, in processor times of the plain script."""
LOOK_SECONDS = 1.0
OUT = RESULTS / "photographs-cost.json"


def cut(folder: Path, out: Path, images: int) -> None:
    """Write so many pieces of the photographs as JPEGs, in a folder for each of two classes."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    photographs = [Image.open(path).convert("RGB") for path in files]
    generator = np.random.default_rng(SEED)
    for number in range(images):
        whole = photographs[number % len(photographs)]
        enlarged = whole.resize((max(whole.width, 2 * WIDTH), max(whole.height, 2 * HEIGHT)))
        left = int(generator.integers(0, enlarged.width - WIDTH + 1))
        top = int(generator.integers(0, enlarged.height - HEIGHT + 1))
        path = out / CLASSES[number % 2] / f"{number:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        enlarged.crop((left, top, left + WIDTH, top + HEIGHT)).save(path, quality=92)


def save_random(folder: Path, architecture: str) -> None:
    """Save a network of random weights as timm does."""
    folder.mkdir(parents=True)
    network = timm.create_model(architecture, num_classes=len(CLASSES))
    prepared = {key: network.pretrained_cfg[key] for key in ("interpolation", "crop_pct", "mean", "std")}
    config = {
        "architecture": architecture,
        "num_classes": len(CLASSES),
        "model_args": {},
        "pretrained_cfg": {"input_size": [3, 224, 224], "num_classes": len(CLASSES), **prepared},
    }
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "class_map.json").write_text(json.dumps(CLASSES), encoding="utf-8")


def of_product(client: Client, dataset: str, network: str, images: int) -> dict[str, Any]:
    """Run the stress test, and return what it took."""
    own, memory = os.getpid(), list[float]()
    began, worked, here = time.monotonic(), processor_seconds(own), time.process_time()
    run = client.stress_tests.create(
        dataset=dataset, classifiers=[f"local:{network}"], seed=SEED, transforms={"levels": [LEVEL]}
    )
    while (seen := client.stress_tests.get(run.id).run).ended_at is None:
        counts = seen.request_counts
        if (counts.total - counts.pending) * 3 >= images * (len(memory) + 1) and len(memory) < 2:
            memory.append(memory_bytes(own))
        time.sleep(LOOK_SECONDS)
    # Without what this process did, which only looks.
    processor = processor_seconds(own) - worked - (time.process_time() - here)
    return {"processor_s": processor, "wall_s": time.monotonic() - began, "memory": memory}


def of_script(images: Path, model: Path) -> dict[str, Any]:
    """Run the plain script, and return what it took."""
    with tempfile.NamedTemporaryFile() as out:
        command = [sys.executable, "-m", "evaluation.transforms.plain_operations"]
        subprocess.run([*command, str(images), str(model), str(LEVEL), out.name], check=True)
        told: dict[str, Any] = json.loads(Path(out.name).read_bytes())
    return told


def main(arguments: Sequence[str]) -> None:
    """Measure both in turn, and print a line each round."""
    parser = argparse.ArgumentParser(prog="make bench-photographs", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args(arguments)
    laps: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {network: [] for network in NETWORKS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut(given.folder, folder / "images", given.images)
        for network in NETWORKS:
            save_random(folder / "models" / network, network)
        os.environ["COUNTERPOSE_SERVICES_MODELS_FOLDER"] = str(folder / "models")
        stack = Stack(folder / "state", free_port(), free_port(), suite="photographs")
        try:
            stack.up()
            with Client(stack.url) as client:
                client.datasets.upload(folder / "images", name="pieces")
                for network in tqdm([*NETWORKS] * given.rounds, desc="network"):
                    product = of_product(client, "pieces", network, given.images)
                    script = of_script(folder / "images", folder / "models" / network)
                    laps[network].append((product, script))
                    sys.stderr.write(f"{network}: {product} {script}\n")
        finally:
            stack.down()
    report = EditorBenchmark(
        machine=this_machine(),
        settings={"photographs": given.images, "operations": 20, "level": LEVEL},
        rows=[each for network, pairs in laps.items() for each in rows(network, pairs)],
    )
    OUT.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


def rows(network: str, laps: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[Row]:
    """Yield the ratio of processor times, the product's rate, and by how much its memory grows."""
    ratios = [product["processor_s"] / script["processor_s"] for product, script in laps]
    yield row(
        "P3", f"{network}: processor time, times that of a plain script", ratios, at_most(NETWORKS[network])
    )
    rates = [script["images"] / product["wall_s"] for product, script in laps]
    yield row("P3", f"{network}: images made and answered a second", rates, advisory=True)
    grown = [product["memory"][-1] / product["memory"][0] for product, _ in laps]
    yield row("P3", f"{network}: memory after two thirds of a run, times that after one", grown, at_most(1.1))


if __name__ == "__main__":
    main(sys.argv[1:])
