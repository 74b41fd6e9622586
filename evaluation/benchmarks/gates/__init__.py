"""A gate of the performance page each: it measures and gives rows."""
