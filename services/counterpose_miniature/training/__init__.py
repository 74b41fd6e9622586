"""Training of the miniature suite, with one module per stage."""

# Before any model library, as some of them import torchvision.
from counterpose_core import torchvision_operators as torchvision_operators
