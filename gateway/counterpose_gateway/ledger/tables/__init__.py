"""The ledger's tables and its rows: whose they are, and the bodies of the contract that they make."""
