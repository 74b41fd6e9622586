"""Tiny random models, saved by the model libraries themselves in the formats the engines read."""

# Imported before torchvision, which the model libraries import.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch

# For models of this size, synchronising threads costs more than the computation.
torch.set_num_threads(1)
