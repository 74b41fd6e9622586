"""What several processes know of one fake world: its images in the blob store, what they show in a folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from counterpose_core.blobs import BlobStore
from fakes.store import FakeStore
from fakes.world import Shown


class SharedStore(FakeStore):
    """Stores the fakes' images where the gateway and the worker read them."""

    def __init__(self, blobs: BlobStore) -> None:
        super().__init__()
        self.shared = blobs

    def put(self, data: bytes) -> str:
        """Keep ``data`` in both stores."""
        self.shared.put(data)
        return super().put(data)


class KeptShown(dict[str, Shown]):
    """What images show, in a folder: a process knows the images of those before it, as services do."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def __setitem__(self, ref: str, shown: Shown) -> None:
        """Keep it; a kill leaves no half of a file."""
        # Two threads of a process may make one image at the same time.
        half = self._folder / f"{ref}.{os.getpid()}-{threading.get_ident()}"
        half.write_text(f"{shown.label}\n{shown.caption}", encoding="utf-8")
        half.replace(self._folder / ref)
        super().__setitem__(ref, shown)

    def __missing__(self, ref: str) -> Shown:
        label, _, caption = (self._folder / ref).read_text(encoding="utf-8").partition("\n")
        return Shown(label, caption)
