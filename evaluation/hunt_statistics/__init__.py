"""The statistics of bug hunts on simulated failures of known rates: coverage, false bugs, rare failures."""
