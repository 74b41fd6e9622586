"""Dataset interfaces held against rendered truth: results/interface-validity.json."""
