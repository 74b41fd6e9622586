"""captioner."""
