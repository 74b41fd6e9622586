"""Load: how the ledger and the gateway behave with a million items, and with many callers at once."""
