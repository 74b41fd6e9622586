"""The confirmation of what the screen suspects: stages on fresh images, and what proofs add to them."""
