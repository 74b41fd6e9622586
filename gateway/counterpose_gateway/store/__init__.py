"""The upkeep of the store: its budget, and the erasure of what was deleted."""
