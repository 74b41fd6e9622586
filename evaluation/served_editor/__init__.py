"""A stress test with an editor by address: its images server is an oracle that plants faults by a plan."""
