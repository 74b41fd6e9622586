"""The HTTP bodies, written once: the gateway serves them, the services serve them, the SDK parses them."""
