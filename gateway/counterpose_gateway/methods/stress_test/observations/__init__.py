"""What was observed of a stress test's items, and the pairs that tests are made of."""
