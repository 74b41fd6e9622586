"""Webhooks and the outbox of what they are told."""
