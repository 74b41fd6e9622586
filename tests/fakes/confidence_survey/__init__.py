"""A made-up fourth method: how sure classifiers are of the true class on unchanged images.

It lies outside of the packages, so that a test can add it to a copy of them and count what had to change.
"""
