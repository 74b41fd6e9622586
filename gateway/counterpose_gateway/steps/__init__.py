"""What several methods do to images."""
