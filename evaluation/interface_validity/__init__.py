"""Dataset interfaces compared with rendered truth: results/interface-validity.json."""
