"""The stress test against rendered truth: what `make validate` measures, piece by piece."""
