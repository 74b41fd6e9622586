"""Webhooks: signed messages about runs that have ended, delivered at least once."""
