"""Adversarial datasets at scale (Wiles et al., section 4.2): prompts, rounds of images, what is kept."""
