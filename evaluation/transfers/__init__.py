"""Adversarial datasets of the suite's classifiers, and who else fails on them: copies and other networks."""
