"""Whose blobs are, and which may go."""
