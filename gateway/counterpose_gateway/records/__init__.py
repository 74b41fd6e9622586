"""What the ledger and its users exchange, as data: it imports the core alone."""
