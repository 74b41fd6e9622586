"""``make images``: the steps of the Dockerfile, executed without Docker."""
