"""From an image to the latents and null embeddings that give it back."""
