"""Learned tokens: textual inversion in resumable links, bundles, and prompts that use them."""
