"""Runs: created, planned in stages, cancelled, resumed, deleted, and what they report."""
