"""Speed of published architectures with random weights, on which it does not depend; no downloads."""
