"""Runs as they go on: followed, waited for, and told as events."""
