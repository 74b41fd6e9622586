"""The HTML report of a shift benchmark."""
