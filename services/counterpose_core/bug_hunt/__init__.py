"""The mathematics of a bug hunt (Wiles et al., "Discovering Bugs in Vision Models", 2022)."""
