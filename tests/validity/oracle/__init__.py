"""The judge of generated pictures: reads a picture's attributes; no product code may import it."""

from .judge import WEIGHTS as WEIGHTS
from .judge import Oracle as Oracle
