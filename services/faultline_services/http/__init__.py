"""The services' own HTTP machinery; what they share with the gateway is `faultline_http`."""
