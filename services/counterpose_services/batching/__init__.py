"""How calls and items share a model's time and memory."""
