"""counterpose_gateway."""
