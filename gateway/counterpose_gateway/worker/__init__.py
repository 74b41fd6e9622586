"""The worker: what leases, plans, processes and records items, and tells what it measures."""
