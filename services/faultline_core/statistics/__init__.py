"""Intervals, tests and bootstraps."""
