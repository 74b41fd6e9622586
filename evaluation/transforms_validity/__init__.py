"""Sensitivities to operations that are planted in classifiers, and whether a stress test finds them."""
