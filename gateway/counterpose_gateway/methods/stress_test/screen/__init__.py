"""The screen of a stress test (LANCE): from an image to its counterfactuals, step by step."""
