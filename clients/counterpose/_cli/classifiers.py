"""``counterpose classifiers``: which classifiers can be tested, and a user's own Python function as one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, Url
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, exit_on_error, print_note, print_result, show
from counterpose._python_function.function import PREFIX, PythonFunction
from counterpose._python_function.server import FunctionServer
from counterpose._sync.client import Client
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_core.text.near_names import did_you_mean

Function = Annotated[str, typer.Argument(metavar="FUNCTION", help="The function, as py:module:function.")]
Port = Annotated[int, typer.Option(metavar="PORT", help="The port on 127.0.0.1; default: any free port.")]
Spec = Annotated[
    str, typer.Argument(metavar="SPEC", help="A classifier: py:module:function, or one that is listed.")
]

app = group("List, check and serve classifiers.")


@app.command("list")
def list_classifiers(as_json: AsJson = False, url: Url = None) -> None:
    """List the classifiers that can be tested."""
    with connected(url) as client:
        found = client.classifiers.list()
        rows = [(classifier.spec, classifier.architecture) for classifier in found.classifiers]
        show(found, str(Table(("classifier", "architecture"), rows)), as_json)


@app.command(
    epilog=examples(
        "counterpose classifiers check py:mymodel:predict", "counterpose classifiers check leaning-vit"
    )
)
def check(spec: Spec, as_json: AsJson = False, url: Url = None) -> None:
    """Check a classifier before a run: try a Python function on two grey images, look up any other.

    Other networks of timm, and model servers, are checked when a run first uses them.
    """
    with connected(url) as client:
        found = _tried(spec) if spec.startswith(PREFIX) else _listed(client, spec)
        classes = "the dataset's" if found.classes is None else ", ".join(found.classes)
        side = "" if found.resolution is None else f"\nimage side: {found.resolution} pixels"
        show(found, f"{spec} can be tested\nclasses: {classes}{side}", as_json)


@app.command(epilog=examples("counterpose classifiers serve py:mymodel:predict --port 9000"))
def serve(function: Function, port: Port = 0) -> None:
    """Serve a Python function as a classifier on this machine until interrupted."""
    with exit_on_error():
        import_from_working_directory()
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
    """Return the classifiers' specs; functions are served while the command runs.

    Raises:
        InvalidRequest: a function cannot be used, or --detach would stop serving it before the run ends.
    """
    functions = [spec for spec in classifiers if spec.startswith(PREFIX)]
    if functions and detach:
        raise InvalidRequest(
            f"--detach would stop serving {functions[0]!r} before the run ends: start "
            f"`counterpose classifiers serve {functions[0]}` and pass the address it prints"
        )
    if functions:
        import_from_working_directory()
    return client.serve_functions(classifiers)


def _tried(spec: str) -> ClassifierDescription:
    import_from_working_directory()
    function = PythonFunction(spec)
    return ClassifierDescription(
        name=function.name, spec=spec, classes=function.classes, resolution=min(function.size)
    )


def _listed(client: Client, spec: str) -> ClassifierDescription:
    listed = client.classifiers.list().classifiers
    for found in listed:
        if spec in (found.spec, found.name):
            return found
    meant = did_you_mean(spec, [each.spec for each in listed])
    raise UnknownModel(
        f"{spec!r}{meant} is not listed by `counterpose classifiers list`: a name with a prefix, such as "
        "timm:resnet50, is checked when a run first uses it"
    )


def import_from_working_directory() -> None:
    """Let a function's module be found where the command is typed."""
    # Python itself looks in the working directory; an installed command does not.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _wait_for_interrupt() -> None:
    threading.Event().wait()
