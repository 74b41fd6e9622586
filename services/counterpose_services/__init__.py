"""counterpose_services."""
