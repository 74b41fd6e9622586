"""Ended runs in experiment trackers: MLflow, Weights & Biases, trackio."""
