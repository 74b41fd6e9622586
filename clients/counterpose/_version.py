"""The version, on its own so that the client can send it without importing the package's front door."""

__version__ = "0.1.0"
