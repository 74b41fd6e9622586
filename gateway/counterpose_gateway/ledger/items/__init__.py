"""Items: leased, ended and read."""
