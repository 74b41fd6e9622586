"""Gate each new version of a model in MLflow's registry; write the outcome into its tags and an alias.

MLflow's webhook only wakes this program: what there is to do stands in the registry, and what was asked
for in the gateway. So a lost delivery or a killed process leaves no version without its gate, or with two.
"""

import argparse
import base64
import hashlib
import hmac
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from counterpose import Client, CounterposeError, RegressionSet, RequestError

STATE = "counterpose.gate"
FINAL = ("passed", "failed", "inconclusive", "error")
PATIENCE_S, RECENT_S = 3600.0, 7 * 24 * 3600.0
"""Ages of a version: one that the gateway still refuses is an error; one that is older is not gated."""
OLDEST_S, LARGEST = 300, 2**20
"""Of a delivery: seconds since it was signed, and bytes."""


class Receiver(BaseHTTPRequestHandler):
    """Takes MLflow's deliveries; one that is signed and new wakes the program."""

    timeout = 10.0
    secret = b""
    woken = threading.Event()

    def do_POST(self) -> None:
        """Answer 202 to what MLflow signed in the last minutes, and 401 to anything else."""
        length = self.headers.get("content-length", "")
        # A length that is missing or negative would be read until the caller closes.
        size = int(length) if length.isascii() and length.isdecimal() else 0
        body = self.rfile.read(min(size, LARGEST))
        parts = ("delivery-id", "timestamp", "signature")
        delivery, signed_at, given = (self.headers.get(f"x-mlflow-{part}", "") for part in parts)
        expected = hmac.digest(self.secret, f"{delivery}.{signed_at}.".encode() + body, "sha256")
        valid = hmac.compare_digest(given.encode(), b"v1," + base64.b64encode(expected))
        if valid := valid and abs(time.time() - int(signed_at)) <= OLDEST_S:
            self.woken.set()
        self.send_response(202 if valid else 401)
        self.end_headers()


def outcome_of(gateway: Client, version: ModelVersion, options: argparse.Namespace) -> dict[str, str]:
    """Return the tags that say how far the gate of a version is, which the first call creates."""
    baseline = RegressionSet.model_validate_json(options.baseline.read_bytes())
    filled = options.classifier.format(name=version.name, version=version.version)
    classifier = version.tags.get("counterpose.classifier", filled)
    # With the same key, a later call returns the gate of the first.
    key = repr(
        (version.name, version.version, classifier, baseline.digest, options.incumbent, options.tolerance)
    )
    gate = gateway.gates.create(
        baseline=baseline,
        classifiers=[classifier],
        incumbent=options.incumbent,
        tolerance=options.tolerance,
        idempotency_key=hashlib.sha256(key.encode()).hexdigest(),
    )
    tags = {f"{STATE}.run": gate.id, f"{STATE}.report": gate.page}
    if not gate.refresh().ended:
        return tags | {STATE: "running"}
    summary = gate.summary()
    state = summary.outcome if gate.run.state == "completed" and summary.outcome in FINAL else "error"
    return tags | {f"{STATE}.verdict": summary.verdict or gate.run.state, STATE: str(state)}


def gate_versions(gateway: Client, registry: MlflowClient, options: argparse.Namespace) -> None:
    """Take each version without an outcome a step further."""
    versions = registry.search_model_versions(f"name = '{options.model}'")
    passed = [int(version.version) for version in versions if version.tags.get(STATE) == "passed"]
    for version in sorted(versions, key=lambda version: int(version.version)):
        age = time.time() - version.creation_timestamp / 1000
        if version.tags.get(STATE) in FINAL or age > RECENT_S:
            continue
        try:
            tags = outcome_of(gateway, version, options)
        except CounterposeError as error:
            logging.warning("%s %s: %s", version.name, version.version, error)
            refused = isinstance(error, RequestError) and not error.retryable and age > PATIENCE_S
            tags = {f"{STATE}.verdict": str(error), STATE: "error"} if refused else {}
        if tags.get(STATE) == "passed" and int(version.version) > max(passed, default=0):
            registry.set_registered_model_alias(version.name, options.alias, version.version)
        # The state comes last: it ends the work on this version.
        for key, value in tags.items():
            if version.tags.get(key) != value:
                registry.set_model_version_tag(version.name, version.version, key, value)


def main() -> None:
    """Receive deliveries and gate versions until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="the registered model")
    parser.add_argument("--baseline", required=True, type=Path, help="what `counterpose freeze` wrote")
    parser.add_argument("--classifier", required=True, help="a version's, with {name} and {version} in it")
    parser.add_argument("--secret-file", required=True, type=Path, help="holds the webhook's secret")
    parser.add_argument("--incumbent", help="default: the baseline's only classifier")
    parser.add_argument("--tolerance", type=float, default=0.1, help="the regression that is allowed")
    parser.add_argument("--alias", default="gated", help="given to each version that passes")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between looks at the registry")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8091)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    Receiver.secret = options.secret_file.read_bytes().strip()
    server = ThreadingHTTPServer((options.host, options.port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    logging.info("listening on http://%s:%d/", *server.server_address[:2])
    gateway, registry = Client(), MlflowClient()
    while True:
        try:
            gate_versions(gateway, registry, options)
        except MlflowException as error:
            logging.warning("%s", error)
        Receiver.woken.wait(options.every)
        Receiver.woken.clear()


if __name__ == "__main__":
    main()
