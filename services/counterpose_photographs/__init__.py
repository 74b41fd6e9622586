"""Real images and real networks that packages ship, for ``counterpose demo photographs``."""
