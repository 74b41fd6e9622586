"""Options that bound what a run asks servers of others for, and the user's file of prices."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from counterpose._cli.contract_options import Option
from counterpose_core.contract.field_errors import in_words
from counterpose_core.contract.spending import Price
from counterpose_core.errors import InvalidRequest

_PRICES = TypeAdapter(dict[str, Price])


def read_prices(file: str) -> dict[str, Price]:
    """Read prices by the model's name, from a file of TOML or JSON.

    Raises:
        InvalidRequest: it cannot be read, or a price is unknown, negative or no number.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        return _PRICES.validate_python(json.loads(text) if file.endswith(".json") else tomllib.loads(text))
    except OSError as error:
        raise InvalidRequest(f"the prices {file!r} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InvalidRequest(f"the prices {file!r}: {in_words(error)}") from error
    except (ValueError, RecursionError) as error:
        form = "JSON" if file.endswith(".json") else "TOML"
        raise InvalidRequest(f"the prices {file!r} cannot be read: it is not {form} ({error})") from error


SPENDING = (
    Option("spending.usd", "USD", "--budget-usd"),
    Option("spending.images", "N", "--budget-images", says="Most images that servers of others may make"),
    Option(
        "spending.prices",
        "FILE",
        "--prices",
        says="TOML or JSON: under each model's name, or `model at host`, usd_per_call, usd_per_image, "
        "usd_per_million_input_tokens, usd_per_million_output_tokens",
        read=read_prices,
        default=None,
        once=True,
    ),
)
"""The options of a run's request; a run that reaches its budget stops, and keeps what it has."""

LargerUsd = Annotated[
    float | None,
    typer.Option("--budget-usd", metavar="USD", help="New budget of the whole run.", show_default=False),
]
LargerImages = Annotated[
    int | None,
    typer.Option("--budget-images", metavar="N", help="New budget of the whole run.", show_default=False),
]
