"""``faultline classifiers``: what can be tested, and the user's own Python function as one of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from faultline._client import Client
from faultline._function_server import FunctionServer
from faultline._python_function import PREFIX, PythonFunction
from faultline._terminal import AsJson, Url, complain, connected, ending_well, say, show
from faultline_core.errors import InvalidRequest

app = typer.Typer(invoke_without_command=True)


@app.callback()
def classifiers(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the classifiers that can be tested."""
    if context.invoked_subcommand is not None:
        return
    with connected(url) as client:
        found = client.classifiers.list()
    show(found, "\n".join(f"{c.spec}  {c.architecture}" for c in found.classifiers), as_json)


@app.command()
def serve(
    function: Annotated[str, typer.Argument(help="The function, as py:module:function.")],
    port: Annotated[int, typer.Option(help="Where on 127.0.0.1; default: any that is free.")] = 0,
) -> None:
    """Serve a Python function as a classifier of this machine until interrupted."""
    with ending_well():
        _look_here_too()
        server = FunctionServer(PythonFunction(function), port)
        try:
            say(server.spec)
            complain(f"serving {function} until interrupted; give the line above to --classifier")
            _rest()
        except KeyboardInterrupt:
            # How it is meant to end, and no failure.
            complain("stopped")
        finally:
            server.close()


def reachable(client: Client, classifiers: Sequence[str], *, detach: bool) -> list[str]:
    """What the gateway is to be told of ``classifiers``; functions are served while the command runs.

    Raises:
        InvalidRequest: a function cannot be used, or the command would leave before its run.
    """
    functions = [spec for spec in classifiers if spec.startswith(PREFIX)]
    if functions and detach:
        raise InvalidRequest(
            f"{functions[0]!r} is served by this command, which --detach would end before the run: "
            f"use `faultline classifiers serve {functions[0]}` and the address it prints"
        )
    if functions:
        _look_here_too()
    return client.served(classifiers)


def _look_here_too() -> None:
    # Python itself looks in the working directory; an installed command does not.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _rest() -> None:
    threading.Event().wait()
