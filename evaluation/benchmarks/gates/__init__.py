"""The gates of the performance page, one module each: it measures and returns rows."""
