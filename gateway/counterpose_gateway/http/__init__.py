"""The gateway's own HTTP machinery; what it shares with the services is `counterpose_http`."""
