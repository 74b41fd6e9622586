"""Scale: how long large runs take on many GPUs, by a simulation that is held to what is measured here."""
