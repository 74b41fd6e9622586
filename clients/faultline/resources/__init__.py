"""What can be called: one module a noun, as in the URLs."""
