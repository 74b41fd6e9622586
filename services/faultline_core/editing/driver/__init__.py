"""Runs walks of several images as few calls of the denoiser."""
