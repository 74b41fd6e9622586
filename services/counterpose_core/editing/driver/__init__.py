"""Runs the walks of several images together, with few denoiser calls."""
