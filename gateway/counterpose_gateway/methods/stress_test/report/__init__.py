"""The HTML report of a stress test."""
