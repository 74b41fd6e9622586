"""The judge of generated images: reads an image's attributes; no product code may import it."""

from .judge import WEIGHTS as WEIGHTS
from .judge import Oracle as Oracle
