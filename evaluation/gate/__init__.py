"""The gate on trial: how often it passes an equal model, and how often it stops a planted bug."""
