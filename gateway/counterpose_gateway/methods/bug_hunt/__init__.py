"""The bug hunt: failures that nobody asked about, described in words (Wiles et al., 2022)."""
