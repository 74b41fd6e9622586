"""Datasets: their sources, their imports, their end."""
