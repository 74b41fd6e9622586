"""Judges of edits: what the rule k of n is worth beside CLIP alone, on edits whose truth is rendered."""
