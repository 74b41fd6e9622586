"""The folders of the scorer's text models: a transformer and its tokenizer, read without code or pickles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel

from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.tokenizers import load_tokenizer


def load_text_model(
    kind: type[AutoModel | AutoModelForMaskedLM], folder: Path, device: str
) -> tuple[PreTrainedModel, Any]:
    """Load the folder's model in float32 by one of transformers' auto classes, with its tokenizer."""
    tokenizer = load_tokenizer(folder)
    # Sentence encoders are saved with and without BERT's pooling layer; the scorer averages the tokens.
    model = load_fitting(kind, folder, unread="pooler.", trust_remote_code=False, dtype=torch.float32)
    return model.eval().to(torch.device(device)), tokenizer
