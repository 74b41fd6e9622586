"""The gate: whether a candidate classifier loses more under counterfactuals than the incumbent does."""

LEAST_UNITS = 20
"""Source images below which a change is not tested: with fewer no interval ends below a useful tolerance."""
