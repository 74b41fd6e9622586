"""One service's engine, loaded and tried: ``python -m counterpose_services.serving.engine_trial SERVICE``.

A process of its own: its memory is that of this service alone, and it is free again when it ends.
"""

from __future__ import annotations

import importlib
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from pydantic import BaseModel

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import captioner, classifiers, editor, perturber, scorer
from counterpose_core.errors import CounterposeError
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import Suite, load_suite
from counterpose_services.models.device import choose_float32_precision, require_device
from counterpose_services.serving.engine_protocols import Captioner, Classifiers, Editor, Perturber, Scorer
from counterpose_services.serving.serve_config import import_path
from counterpose_services.settings import ServiceName, ServiceSettings

CAPTION, EDITED = "a photo of a dog on the grass", "a photo of a dog on the water"
WORD = 4
"""The position of "dog", which the scorer's language model is to replace."""
CLASSES = ["dog", "bird"]
"""What a classifier without classes of its own, such as CLIP, is asked for."""
SKY, GROUND = (150, 190, 230), (90, 140, 60)
INTERVAL_S = 0.05
STATUS = Path("/proc/self/status")
KIBIBYTE = 1024


class OwnMemory:
    """Looks at the process's own memory within its context; ``peak_bytes`` is the most that it saw.

    The kernel keeps the most of all resident memory only, which holds the weights twice where a library maps
    their files: once in the file's pages, which the system takes back when it needs them.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, name="own memory", daemon=True)

    def __enter__(self) -> OwnMemory:
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._looking.join()
        self.peak_bytes = max(self.peak_bytes, own_bytes())

    def _look(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, own_bytes())


def own_bytes() -> int:
    """Return the memory of this process now that is its own, or the most of all where only that is known."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
    return int(lines["RssAnon"].split()[0]) * KIBIBYTE


class Trial(BaseModel, frozen=True, extra="forbid"):
    """What a trial measured; ``problem`` is one sentence if it failed, else null.

    ``peak_bytes`` is what torch reserved of the GPU at most, or this process's own memory.
    """

    load_seconds: float = 0.0
    request_seconds: float = 0.0
    peak_bytes: int = 0
    problem: str | None = None


def try_service(service: ServiceName, settings: ServiceSettings) -> Trial:
    """Load the engine of ``service`` and send it one request of each kind that a run sends."""
    with OwnMemory() as memory:
        trial = _tried(service, settings)
    if trial.problem is not None:
        return trial
    if not settings.of(service).on_gpu:
        return trial.model_copy(update={"peak_bytes": memory.peak_bytes})
    import torch

    return trial.model_copy(update={"peak_bytes": int(torch.cuda.max_memory_reserved())})


def _tried(service: ServiceName, settings: ServiceSettings) -> Trial:
    """Time the loading and the requests."""
    with tempfile.TemporaryDirectory(prefix="counterpose-check-") as folder:
        private = settings.model_copy(update={"store_url": folder})
        started = time.monotonic()
        try:
            require_device(private, service)
            choose_float32_precision(private, service)
            module, _, _ = import_path(service).partition(":")
            engine = _deployment(importlib.import_module(module), service).load(private)
            loaded = time.monotonic()
            REQUESTS[service](engine, load_suite(private.suite, private), BlobStore(folder))
        except (CounterposeError, OSError, RuntimeError, MemoryError, ValueError) as error:
            # Of a library's error, the first line is the finding and the rest its trace.
            told = error.detail if isinstance(error, CounterposeError) else f"{type(error).__name__}: {error}"
            return Trial(problem=f"the {service} did not answer: {told.strip().splitlines()[0]}")
        ended = time.monotonic()
        return Trial(load_seconds=loaded - started, request_seconds=ended - loaded)


def _deployment(module: Any, service: ServiceName) -> Any:
    return getattr(module, f"{service.capitalize()}Deployment")


def _image(store: BlobStore, side: int) -> str:
    """Store a meadow under a sky: of any content, because only time and memory are measured."""
    pixels = np.empty((side, side, 3), dtype=np.uint8)
    pixels[: side // 2], pixels[side // 2 :] = SKY, GROUND
    return store.put(encode_png(pixels))


def _caption(engine: Captioner, suite: Suite, store: BlobStore) -> None:
    item = captioner.CaptionItem(image=_image(store, suite.editor.resolution))
    engine.caption(captioner.CaptionRequest(items=[item])).outcomes[0].unwrap()


def _perturb(engine: Perturber, suite: Suite, store: BlobStore) -> None:
    item = perturber.PerturbItem(caption=CAPTION, perturbation_type="background", n=1, seed=0)
    engine.perturb(perturber.PerturbRequest(items=[item])).outcomes[0].unwrap()
    engine.likelihoods(perturber.LikelihoodsRequest(texts=[CAPTION])).outcomes[0].unwrap()


def _edit(engine: Editor, suite: Suite, store: BlobStore) -> None:
    image = _image(store, suite.editor.resolution)
    item = editor.EditItem(image=image, caption=CAPTION, edited_caption=EDITED)
    preset = suite.editor.presets[suite.editor.default_preset]
    asked = editor.EditRequest(items=[item], preset=preset)
    engine.edit(asked, cancelled=lambda: False).outcomes[0].unwrap()


def _score(engine: Scorer, suite: Suite, store: BlobStore) -> None:
    image = _image(store, suite.editor.resolution)
    item = scorer.ScoreItem(original=image, edited=image, caption=CAPTION, edited_caption=EDITED)
    if suite.scorer.clip:
        engine.score(scorer.ScoreRequest(items=[item])).outcomes[0].unwrap()
    if suite.scorer.sentence:
        engine.embed_texts(scorer.EmbedTextsRequest(texts=[CAPTION], encoder="sentence")).outcomes[0].unwrap()
    if suite.scorer.masked_lm:
        masked = scorer.FillMaskItem(text=CAPTION, position=WORD, seed=0)
        engine.fill_mask(scorer.FillMaskRequest(items=[masked])).outcomes[0].unwrap()


def _classify(engine: Classifiers, suite: Suite, store: BlobStore) -> None:
    image = _image(store, suite.editor.resolution)
    for spec in (*suite.classifiers.models, *suite.classifiers.zero_shot):
        known = engine.describe(classifiers.DescribeRequest(classifier=spec)).classes
        asked = classifiers.ClassifyRequest(classifier=spec, images=[image], classes=known or CLASSES)
        engine.classify(asked).outcomes[0].unwrap()


REQUESTS: Mapping[ServiceName, Callable[[Any, Suite, BlobStore], None]] = {
    "captioner": _caption,
    "perturber": _perturb,
    "editor": _edit,
    "scorer": _score,
    "classifiers": _classify,
}


def main() -> None:
    """Try the service that the first argument names, with settings from standard input, and print a Trial."""
    settings = ServiceSettings.model_validate_json(sys.stdin.read())
    name: Any = sys.argv[1]
    sys.stdout.write(try_service(name, settings).model_dump_json() + "\n")


if __name__ == "__main__":
    main()
