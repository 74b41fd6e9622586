"""``counterpose mlflow-gate``: new model versions of MLflow's registry through a gate."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from counterpose._cli.gate import Baseline, Incumbent, Tolerance, baseline_of
from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, Seed, Url
from counterpose._cli.terminal import connected, print_note, print_result
from counterpose._registry_gate.receiver import Receiver
from counterpose._registry_gate.registry_gate import GateRequest, RegistryGate
from counterpose._trackers.mlflow import mlflow_client
from counterpose_core.contract.gates import TOLERANCE
from counterpose_core.errors import InvalidRequest

Models = Annotated[
    list[str], typer.Option("--model", metavar="NAME", help="A registered model to watch. Repeatable.")
]
Pattern = Annotated[
    str,
    typer.Option(
        metavar="SPEC",
        help="The gateway's classifier of a version, with {name} and {version} in it, such as "
        "oip:http://models:8080/v2/models/{name}/versions/{version}. A version's tag counterpose.classifier "
        "goes before it.",
    ),
]
SecretFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        envvar="COUNTERPOSE_MLFLOW_SECRET_FILE",
        help="The file with the webhook's secret, at least 16 bytes.",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri", metavar="URI", envvar="MLFLOW_TRACKING_URI", help="MLflow's server or database."
    ),
]
Host = Annotated[str, typer.Option(metavar="HOST", help="The address to listen on.")]
Port = Annotated[
    int, typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; 0: a free one.")
]

EXAMPLES = examples(
    "counterpose mlflow-gate --model pets --baseline set.json --incumbent local:pets "
    "--classifier local:{name}-{version} --secret-file secret --tracking-uri http://127.0.0.1:5000"
)


def mlflow_gate(
    model: Models,
    baseline: Baseline,
    classifier: Pattern,
    secret_file: SecretFile,
    incumbent: Incumbent = None,
    tolerance: Tolerance = TOLERANCE,
    seed: Seed = 0,
    tracking_uri: TrackingUri = None,
    host: Host = "127.0.0.1",
    port: Port = 8091,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Gate each new version of some models in MLflow's registry, and tag it with the outcome.

    MLflow sends a webhook of model_version.created here; the version's tag counterpose.gate becomes
    running, then passed, failed, inconclusive or error. Runs until it is interrupted.
    """
    with connected(url) as client:
        asked = GateRequest(
            baseline=baseline_of(client, baseline),
            classifier=classifier,
            incumbent=incumbent,
            tolerance=tolerance,
            seed=seed,
        )
        gate = RegistryGate(client, mlflow_client(tracking_uri), model, asked, note=print_note)
        receiver = Receiver(gate, _secret(secret_file), host, port)
        print_result(json.dumps({"address": receiver.address}) if as_json else receiver.address)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            receiver.wait()
        finally:
            receiver.close()


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _secret(file: Path) -> bytes:
    try:
        # Editors end a file with a newline, which is no part of a secret.
        return file.read_bytes().strip()
    except OSError as error:
        raise InvalidRequest(f"cannot read the secret in {str(file)!r}: {error.strerror}") from error
