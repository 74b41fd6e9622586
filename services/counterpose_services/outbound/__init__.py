"""Calls to servers of others: listed hosts only, bounded in time and bytes."""
