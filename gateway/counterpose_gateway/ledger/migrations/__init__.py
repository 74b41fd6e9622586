"""The ledger's schema, revision by revision."""
