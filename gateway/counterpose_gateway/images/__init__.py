"""Images on their way in and out: intake, PNG, and the mark of synthetic media."""
