"""The Open Inference Protocol v2 as the services answer it."""
