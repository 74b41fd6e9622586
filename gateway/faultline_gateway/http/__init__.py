"""The gateway's own HTTP machinery; what it shares with the services is `faultline_http`."""
