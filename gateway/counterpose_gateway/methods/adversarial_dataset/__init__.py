"""Adversarial datasets: images of captions that classifiers get wrong (Wiles et al., section 4.2)."""
