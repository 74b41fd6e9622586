"""The packages of `make test-images-api`, last on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ENVIRONMENT = Path(__file__).parents[2] / ".venv-images-api"
PACKAGES = next(ENVIRONMENT.glob("lib/python3*/site-packages"), None)
if PACKAGES is None:
    pytest.skip("there are no packages: make test-images-api installs them", allow_module_level=True)
# Last on the path: what both environments have is ours.
sys.path.append(str(PACKAGES))
