"""What a stress test of operations costs without a product: one process decodes, changes and classifies.

`python -m evaluation.transforms.plain_operations FOLDER MODEL LEVEL OUT` goes through a folder of photographs
with one network, as the suite's operations and the product's own recipes say, and writes its processor time
and what it answered.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import load_file

from counterpose_core import torchvision_operators  # noqa: F401  # before timm, which loads torchvision
from counterpose_core.blobs import digest
from counterpose_core.contract.recipes import IDENTITY, PLACEBO, WORKING_SIZE, Recipe
from counterpose_core.image_recipes import changed, working
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.suite import load_suite
from counterpose_core.transforms.table import operation

BATCH = 32
SEED = 5


def images_of(data: bytes, operations: list[str], level: int) -> Iterator[Pixels]:
    """Yield the image at its working size, its placebo, and what each operation makes of it."""
    pixels, source = working(decode_image(data), WORKING_SIZE), digest(data)
    for name in (IDENTITY, PLACEBO, *operations):
        of = level if name in operations and operation(name).levels > 1 else int(name in operations)
        yield changed(Recipe(source, name, level=of, seed=SEED), pixels, lambda _: b"")


def main(folder: str, model: str, level: str, out: str) -> None:
    """Go through the folder, and write what it took."""
    import timm
    from timm.data import create_transform

    torch.set_num_threads(1)
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    network = timm.create_model(config["architecture"], num_classes=config["num_classes"]).eval()
    network.load_state_dict(load_file(Path(model) / "model.safetensors"))
    own = {key: value for key, value in config["pretrained_cfg"].items() if key != "num_classes"}
    prepared = create_transform(**own, is_training=False)
    chosen = load_suite("photographs").transforms
    if chosen is None:
        raise SystemExit("the suite has no operations")
    names = [name for name in chosen.operations if not operation(name).needs_mask]
    files = sorted(Path(folder).rglob("*.jpg"))
    answers, batch = list[int](), list[torch.Tensor]()
    began = time.process_time()

    def answered() -> None:
        with torch.inference_mode():
            answers.extend(network(torch.stack(batch)).argmax(-1).tolist())
        batch.clear()

    for file in files:
        for pixels in images_of(file.read_bytes(), names, int(level)):
            batch.append(prepared(Image.fromarray(pixels)))
            if len(batch) == BATCH:
                answered()
    if batch:
        answered()
    told = {"processor_s": time.process_time() - began, "images": len(answers)}
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
