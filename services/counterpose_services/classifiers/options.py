"""The classifiers that are allowed in addition to the suite's.

A separate module, so that the deployment imports it without a model library.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel


class ClassifierOptions(BaseModel, frozen=True, extra="ignore", protected_namespaces=()):
    """``local:`` names are folders of ``models_folder``; ``oip:`` hosts must be among ``oip_hosts``.

    ``label_map`` is a JSON file {dataset class: [head classes]} that precedes equality of names.
    """

    models_folder: Path | None = None
    label_map: Path | None = None
    oip_hosts: tuple[str, ...] = ()
    oip_seconds: float = 30.0
    oip_answer_bytes: int = 64 * 2**20
    model_cache_bytes: int = 2 * 2**30
    device: str = "cpu"
