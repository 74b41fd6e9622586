"""Settings of Hypothesis for every test: a gate must not fail by chance or by a slow machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate")
