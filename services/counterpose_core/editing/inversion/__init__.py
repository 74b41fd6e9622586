"""Inversions: from an image to the latents and null embeddings that reconstruct it."""
