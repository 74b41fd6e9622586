"""Model files, the models loaded from them, and forward passes whose results are cached."""
