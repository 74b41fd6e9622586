"""Weights of the embedded model suite, in the folder ``weights``: read, never imported."""
