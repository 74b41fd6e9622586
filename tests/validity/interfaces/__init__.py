"""Dataset interfaces held against rendered truth: demo/interface-validity.json."""
