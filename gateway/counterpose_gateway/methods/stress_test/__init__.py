"""The stress test (LANCE): real images with one thing changed, and what the change does to classifiers."""
