"""Prints what extras of pyproject.toml require, for ``pip install --requirement``.

python extras.py EXTRA ...
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def required(project: dict[str, Any], extras: Sequence[str]) -> list[str]:
    """Return the requirements of a project with some extras; those of extras in extras among them."""
    found, waiting = list(project["dependencies"]), list(extras)
    for extra in waiting:
        for each in project["optional-dependencies"][extra]:
            inner = re.fullmatch(rf"{project['name']}\[(.+)\]", each)
            (waiting if inner else found).extend(inner[1].split(",") if inner else [each])
    return sorted(set(found))


if __name__ == "__main__":
    told = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    sys.stdout.write("\n".join(required(told, sys.argv[1:])) + "\n")
