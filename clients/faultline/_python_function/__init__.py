"""A user's own Python function as a classifier: what it must return, and the server that answers for it."""
