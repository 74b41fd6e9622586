"""faultline_services."""
