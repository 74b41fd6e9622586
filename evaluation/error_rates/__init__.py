"""Simulated runs whose truth is known: how often the product's tests and intervals are wrong."""
