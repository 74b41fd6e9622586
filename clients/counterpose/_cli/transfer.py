"""``counterpose transfer``: show images that fool some classifiers to others."""

from __future__ import annotations

from counterpose._cli.bug_hunt import criterion_named
from counterpose._cli.contract_options import LABEL_MAP, SEED, Fields, Option, request_options
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import Classifiers, OneRun
from counterpose._sync.client import Client
from counterpose_core.contract.transfers import TransferCreate

EXAMPLES = examples(
    "counterpose transfer 3fa8 --classifier leaning-resnet --classifier unbiased-resnet --report matrix.html",
    codes=True,
)


@request_options(
    TransferCreate,
    LABEL_MAP,
    Option("criterion", "NAME", more="As for `counterpose bug-hunt`", read=criterion_named),
    Option("images", "N"),
    SEED,
)
def transfer(run: OneRun, classifier: Classifiers, fields: Fields, output: Output, client: Client) -> None:
    """Show images that fool the classifiers of a run to others (Wiles et al.)."""
    serve_and_follow(
        client,
        classifier,
        lambda specs: client.transfers.create(source=client.runs.get(run).id, classifiers=specs, **fields),
        output,
    )
