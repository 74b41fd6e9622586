"""One loop that owns the network, and packs the steps of all requests into few calls."""
