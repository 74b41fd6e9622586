"""Inversion and editing of the images of one request."""
