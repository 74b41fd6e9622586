"""The schema of the first release; a later change of a table is a revision of its own.

`Database.migrate` makes a new database of the tables themselves: revisions only lead there from an older one.
`tests/integration/gateway/baseline` holds what this one stands for, and a test upgrades it.

Revision ID: 0101
"""

# Above the numbers of the revisions before the first release, whose ledgers are refused.
revision = "0101"
down_revision = None
