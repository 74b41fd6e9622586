"""Stress tests compared with rendered truth: what `make validate` measures, piece by piece."""
