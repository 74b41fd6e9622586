"""faultline_gateway."""
