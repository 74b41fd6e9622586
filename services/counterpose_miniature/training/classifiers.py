"""The suite's four classifiers: one unbiased control and three with planted bugs over all five edit types."""

from __future__ import annotations

from counterpose_miniature.training.bugs import SUITE_BUGS, read_bugs
from counterpose_miniature.training.classifier import Order, train_classifier
from counterpose_miniature.training.stage import StageContext, figures_of, finish, stage_log, use_threads

STAGE = "classifiers"
FOLDER = "classifiers"
# Name and architecture of each; the bugs are in suite/bugs/<name>.json.
DEFAULTS: dict[str, str] = {
    "unbiased-resnet": "test_resnet",
    "leaning-resnet": "test_resnet",
    "leaning-vit": "test_vit",
    "leaning-convnext": "test_convnext2",
}


def train(context: StageContext) -> None:
    """Train those of the four that have no figures yet."""
    use_threads(context.threads)
    for number, (name, architecture) in enumerate(DEFAULTS.items()):
        stage = f"{STAGE}/{name}"
        if figures_of(context, stage) is not None:
            continue
        order = Order(
            architecture,
            tuple(read_bugs(SUITE_BUGS / f"{name}.json")),
            seed=len(DEFAULTS) * context.seed + number,
        )
        with stage_log(context, stage) as log:
            wanted = order.small() if context.smoke else order
            figures = train_classifier(wanted, context.out / FOLDER / name, context.folder(stage), log)
        finish(context, stage, figures)
