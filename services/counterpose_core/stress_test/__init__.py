"""The mathematics of a stress test (LANCE)."""
