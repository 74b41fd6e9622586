"""A function or model of the user's own as a classifier: what it must return, and the server that answers."""
