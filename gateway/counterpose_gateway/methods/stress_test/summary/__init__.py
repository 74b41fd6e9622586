"""From the recorded items of a stress test to its figures and its verdict."""
