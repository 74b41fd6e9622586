"""Editors measured on PIE-Bench's format (Ju et al. 2024), and a set of the rendered world in it."""
