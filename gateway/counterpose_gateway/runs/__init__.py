"""What the runs of every method share: their items, one attempt at them, seeds, estimates and features."""
