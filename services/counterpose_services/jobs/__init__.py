"""A Ray job that works on a run: its driver, and the actors that keep a worker each."""
