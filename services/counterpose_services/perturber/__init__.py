"""perturber."""
