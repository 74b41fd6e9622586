"""Verbs of the command line for who runs the gateway."""
