"""Published architectures at full size with random weights, served one service at a time and asked once."""
