"""``faultline classifiers``: which classifiers can be tested, and a user's own Python function as one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from faultline._cli.options import AsJson, Url
from faultline._cli.tables import Table
from faultline._cli.terminal import connected, exit_on_error, print_note, print_result, show
from faultline._client import Client
from faultline._python_function.function import PREFIX, PythonFunction
from faultline._python_function.server import FunctionServer
from faultline_core.errors import InvalidRequest

app = typer.Typer(invoke_without_command=True)

Function = Annotated[str, typer.Argument(metavar="FUNCTION", help="The function, as py:module:function.")]
Port = Annotated[int, typer.Option(metavar="PORT", help="The port on 127.0.0.1; default: any free port.")]


@app.callback()
def classifiers(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the classifiers that can be tested."""
    if context.invoked_subcommand is not None:
        return
    with connected(url) as client:
        found = client.classifiers.list()
        rows = [(classifier.spec, classifier.architecture) for classifier in found.classifiers]
        show(found, str(Table(("classifier", "architecture"), rows)), as_json)


@app.command()
def serve(function: Function, port: Port = 0) -> None:
    """Serve a Python function as a classifier on this machine until interrupted."""
    with exit_on_error():
        _import_from_working_directory()
        server = FunctionServer(PythonFunction(function), port)
        try:
            print_result(server.spec)
            print_note(f"serving {function} until interrupted; pass the line above to --classifier")
            _wait_for_interrupt()
        except KeyboardInterrupt:
            # The intended end, not a failure.
            print_note("stopped")
        finally:
            server.close()


def reachable(client: Client, classifiers: Sequence[str], *, detach: bool) -> list[str]:
    """Return the classifiers as the gateway can reach them; functions are served while the command runs.

    Raises:
        InvalidRequest: a function cannot be used, or --detach would stop serving it before the run ends.
    """
    functions = [spec for spec in classifiers if spec.startswith(PREFIX)]
    if functions and detach:
        raise InvalidRequest(
            f"--detach would stop serving {functions[0]!r} before the run ends: start "
            f"`faultline classifiers serve {functions[0]}` and pass the address it prints"
        )
    if functions:
        _import_from_working_directory()
    return client.serve_functions(classifiers)


def _import_from_working_directory() -> None:
    # Python itself looks in the working directory; an installed command does not.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _wait_for_interrupt() -> None:
    threading.Event().wait()
