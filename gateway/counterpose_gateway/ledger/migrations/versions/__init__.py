"""One module a revision; the first makes every table."""
