"""Importing datasets from URLs: addresses that are allowed, their shards, and the images in them."""
