"""The database below the ledger: engine and transactions, lease time, revisions, cursors."""
