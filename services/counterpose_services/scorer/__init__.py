"""scorer."""
