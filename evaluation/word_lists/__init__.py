"""Word lists that the core ships, derived from published dictionaries."""
