"""The resources of a client: one module per noun, as in the URLs."""
