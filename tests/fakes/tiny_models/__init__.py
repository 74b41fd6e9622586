"""Tiny random models, saved by the model libraries themselves in the formats the engines read."""

# Before anything that imports torchvision, as the model libraries do.
from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import torch

# Threads that wait for each other cost more than models of this size have to compute.
torch.set_num_threads(1)
