"""Corruptions held against a published implementation."""
