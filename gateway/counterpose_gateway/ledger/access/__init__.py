"""Who may call, and how much each tenant may use."""
