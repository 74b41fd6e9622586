"""Revisions of the ledger's schema that only tests have: what a later version would add to the baseline."""
