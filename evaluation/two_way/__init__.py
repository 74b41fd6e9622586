"""Bugs that need two conditions at once, and whether a stress test names both."""
