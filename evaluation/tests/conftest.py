"""Settings of every test: a gate must not fail by chance, by a slow machine, or by another processor."""

from __future__ import annotations

from hypothesis import settings

from golden import golden as golden
from golden import pytest_itemcollected as pytest_itemcollected

settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate")
