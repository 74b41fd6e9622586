"""Texts: plain-text checks, captions, prompts and the differences between captions."""
