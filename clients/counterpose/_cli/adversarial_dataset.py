"""``counterpose adversarial-dataset`` and ``register``: images that classifiers get wrong, as a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpose._cli.bug_hunt import CRITERION
from counterpose._cli.contract_options import LABEL_MAP, SEED, STEPS, Fields, Option, request_options
from counterpose._cli.datasets import dataset_name
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import AsJson, Classifiers, OneRun, Url
from counterpose._cli.spending import SPENDING
from counterpose._cli.tables import unless_empty
from counterpose._cli.terminal import connected, show
from counterpose._sync.adversarial_datasets import AdversarialDataset
from counterpose._sync.client import Client
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialDatasetCreate
from counterpose_core.errors import InvalidRequest

SeedDataset = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATASET]",
        help="A dataset's name, or a folder with one subfolder per class; its images are captioned.",
        show_default=False,
    ),
]
Hunt = Annotated[
    str | None, typer.Option(metavar="RUN", help="Use the descriptions of this bug hunt and no dataset.")
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--caption",
        metavar="LABEL=TEXT",
        help="Use this caption, as fly='a photo of a fly on a flower', and no dataset. Repeatable.",
    ),
]
AllSeeds = Annotated[
    bool, typer.Option("--all-seeds", metavar="", help="Caption images that fool no classifier, too.")
]
DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the dataset.")]

EXAMPLES = examples(
    "counterpose adversarial-dataset photos/ --classifier leaning-vit --report adversarial.html",
    "counterpose adversarial-dataset --hunt 3fa8 --classifier leaning-vit",
    codes=True,
)
REGISTER_EXAMPLES = examples("counterpose register @last fooling")


@request_options(
    AdversarialDatasetCreate,
    LABEL_MAP,
    Option("fools", "RULE"),
    Option("samples", "N"),
    Option("most_kept", "N", "--keep"),
    Option("images", "N"),
    *SPENDING,
    CRITERION,
    Option("reference", "DATASET"),
    STEPS,
    SEED,
)
def adversarial_dataset(
    classifier: Classifiers,
    *,
    dataset: SeedDataset = None,
    hunt: Hunt = None,
    caption: Given = None,
    all_seeds: AllSeeds = False,
    fields: Fields,
    output: Output,
    client: Client,
) -> None:
    """Generate images that classifiers get wrong, from captions (Wiles et al.)."""
    given = None if caption is None else [caption_of(text) for text in caption]
    if sum(each is not None for each in (dataset, hunt, given)) != 1:
        raise InvalidRequest("name a dataset, or --hunt, or --caption: one of them")
    serve_and_follow(
        client,
        classifier,
        lambda specs: client.adversarial_datasets.create(
            classifiers=specs,
            dataset=None if dataset is None else dataset_name(client, dataset),
            hunt=None if hunt is None else client.runs.get(hunt, kind="bug-hunt").id,
            given=given,
            mistaken=not all_seeds,
            **fields,
        ),
        output,
    )


def register(run: OneRun, name: DatasetName, as_json: AsJson = False, url: Url = None) -> None:
    """Make a dataset of the images that an adversarial dataset kept, for other methods.

    They take it by its name. The images stay marked as synthetic.
    """
    with connected(url) as client:
        found = client.runs.get(run)
        if not isinstance(found, AdversarialDataset):
            raise InvalidRequest(
                f"run {run!r} is a {found.run.kind}; `counterpose register` takes adversarial datasets alone"
            )
        dataset = found.register(name)
        show(dataset, f"{dataset.name}\t{dataset.n_sources} images", as_json)


def caption_of(text: str) -> tuple[str, str]:
    """Return the label and the caption that are written as ``label=caption``.

    Raises:
        InvalidRequest: the text has no ``=``.
    """
    label, mark, caption = text.partition("=")
    if not mark or not label or not caption:
        raise InvalidRequest(f"{text!r} is no caption of a label: write LABEL=TEXT")
    return label, caption


def adversarial_dataset_text(summary: AdversarialDatasetSummary) -> str:
    """The verdict, each classifier's rates, what each filter dropped, the captions, and the cost."""
    rates = [(each.classifier, each.rate, each.baseline, str(each.kept)) for each in summary.classifiers]
    captions = [
        (each.prompt, each.label, each.fooling, str(each.made), str(each.kept)) for each in summary.captions
    ]
    lost = {**summary.seeds.dropped, **summary.left_out}
    seeds = "".join(f"; {count} {reason}" for reason, count in lost.items())
    dropped = ", ".join(f"{count} {reason}" for reason, count in summary.dropped.items())
    return "\n".join(
        [
            summary.verdict,
            "",
            *unless_empty(("classifier", "captions", "labels alone", "kept images that fool it"), rates),
            *unless_empty(("caption", "label", "fooling", "images", "kept"), captions),
            f"kept: {summary.kept}; dropped: {dropped or 'none'}",
            f"seeds: {summary.seeds.looked_at} looked at, {summary.seeds.captioned} captioned{seeds}",
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"dataset: {summary.digest}; images: {summary.images}; cost: {summary.cost}",
            *summary.spending_lines,
            *summary.config.notes,
        ]
    )


def _says_something(summary: AdversarialDatasetSummary) -> bool:
    return summary.kept > 0


RUNS = RunsOfKind(text=adversarial_dataset_text, judge=judged_by(_says_something))
