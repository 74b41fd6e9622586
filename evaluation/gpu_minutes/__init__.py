"""How many minutes a stress test takes on published models and GPUs, from counted operations."""
