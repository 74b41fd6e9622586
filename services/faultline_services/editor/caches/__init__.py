"""What the editor caches in the store: inversions, forks of the sweep, latents of previews."""
