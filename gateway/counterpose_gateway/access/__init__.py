"""Who may call the gateway: keys with scopes and an end, and the log of what they changed."""
