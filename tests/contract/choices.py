"""What a body's fields are narrowed to, by the schema's name and the field's; None leaves a field out."""

from __future__ import annotations

from typing import Any

from contract.live import WEBHOOK, Live
from fakes.ray_jobs_api import NAME

Choices = dict[str, dict[str, Any] | None]

NOWHERE = "nowhere"

WORDS = {"type": "string", "pattern": "^[a-z]{3,9}$"}
"""Texts have rules that no schema can tell; `test_bad_texts` is about them."""
CLASSES = {"enum": ["sled", "plate"]}
DATASET = {"enum": ["demo", NOWHERE]}
CLASSIFIER = {"enum": ["steady", "leaning", NOWHERE]}
SHIFT = {"enum": ["in the snow", "at night"]}
NEW = {"type": "string", "pattern": "^new-[0-9a-f]{16}$"}

DATASETS: Choices = {
    "DatasetCreate.name": NEW,
    # The same name with other classes is refused.
    "DatasetCreate.classes": None,
    # The same name with another request is refused.
    "ImportCreate.url": {"enum": ["memory://shards/a.tar"]},
    "ImportCreate.layout": None,
    "ImportCreate.classes": None,
    "ImportCreate.split": None,
    "ImportCreate.image_column": None,
    "ImportCreate.label_column": None,
    "ImportCreate.revision": None,
    "SourceUpload.filename": WORDS,
    "SourceUpload.label": CLASSES,
    "SourceUpload.caption": WORDS,
    # A group is of one class.
    "SourceUpload.group": None,
    # A mask has the size of its image, and is neither empty nor full.
    "SourceUpload.mask_base64": None,
    "SourceUpload.outline": None,
    # What was changed is plain words.
    "SourceUpload.pair": None,
    # Another one than the label.
    "SourceUpload.labels": None,
    "DatasetRegistration.name": {"type": "string", "pattern": "^taken-[0-9a-f]{16}$"},
}
STRESS_TESTS: Choices = {
    "StressTestCreate.dataset": DATASET,
    "StressTestCreate.classifiers": CLASSIFIER,
    # The other rules between two fields have tests of their own.
    "StressTestCreate.max_edits_per_image": {"enum": [1, 2]},
    "StressTestCreate.lance_r_edits_per_image": {"enum": [0, 1]},
    "StressTestCreate.functions": None,
    # Classes of the dataset by class, which no schema can say.
    "StressTestCreate.task": None,
    # Faults that are refused are measured, and some are told of edits with a region alone.
    "StressTestCreate.preservation": {"enum": ["served", "all"]},
    "StressTestCreate.refused_faults": {"enum": ["moved", "scaled"]},
    # The suite and the dataset here have no masks, no judges but CLIP, and nobody to be paid.
    "StressTestCreate.region": None,
    "StressTestCreate.judges": None,
    "StressTestCreate.spending": None,
    "Thresholds.keep": None,
    "Thresholds.without": None,
    # The suite here edits captions, and refuses operations.
    "StressTestCreate.transforms": None,
    "ProofCreate.functions": None,
    "StressTestCreate.exclude": {"enum": ["sled-0.png", "plate-1.png"]},
    "StressTestCreate.preset": {"enum": ["quick", "lance"]},
    "ProofCreate.dataset": DATASET,
    "Intervention.added": {"type": "string", "pattern": "^a[a-z]{3,9}$"},
    "Intervention.removed": {"type": "string", "pattern": "^r[a-z]{3,9}$"},
}
INTERFACES: Choices = {
    "ShiftBenchmarkCreate.functions": None,
    "ShiftBenchmarkCreate.task": None,
    "ShiftBenchmarkCreate.spending": None,
    "ShiftBenchmarkCreate.class_shifts": None,
    "ShiftBenchmarkCreate.scraped": None,
    "ShiftBenchmarkCreate.photographs": None,
    "ShiftBenchmarkCreate.image_sources": {"enum": ["token", "class-name"]},
    "ShiftBenchmarkCreate.base": {"enum": ["a photo of a <class>"]},
    "ShiftBenchmarkCreate.retrieval": {"enum": [NOWHERE]},
    "ShiftBenchmarkCreate.validation": DATASET,
    "DatasetInterfaceCreate.dataset": DATASET,
    "DatasetInterfaceCreate.classes": CLASSES,
    "DatasetInterfaceCreate.token_init": WORDS,
    # What is published is not learned: the other settings would be refused.
    "DatasetInterfaceCreate.tokens": None,
    "TokenFile.class_name": CLASSES,
    "TokenFile.content_base64": {"enum": ["AAAA"]},
    "ImagesCreate.class_name": CLASSES,
    "ImagesCreate.shift": SHIFT,
    "ShiftBenchmarkCreate.classifiers": CLASSIFIER,
    "ShiftBenchmarkCreate.classes": CLASSES,
    "ShiftBenchmarkCreate.shifts": SHIFT,
    "ShiftThresholdSet.author": WORDS,
    # Every inspected image must be judged.
    "ShiftThresholdSet.shows": None,
    "ShiftThresholdSet.percentile": {"enum": [0, 5, 90]},
    "ShiftThresholdSet.image_source": {"enum": ["token", "class-name"]},
}
HUNTS: Choices = {
    "BugHuntCreate.classifiers": CLASSIFIER,
    "BugHuntCreate.labels": {"enum": ["sled", "plate"]},
    "BugHuntCreate.classes": None,
    "BugHuntCreate.parents": None,
    "BugHuntCreate.criterion": None,
    "BugHuntCreate.sampling": None,
    "BugHuntCreate.functions": None,
    "BugHuntCreate.spending": None,
    "BugHuntCreate.descriptions": None,
    "BugHuntCreate.photographs": None,
    # Shares must add up to 1 at most.
    "BugHuntCreate.mixture": None,
    "DescriptionsCreate.photographs": None,
    "DescriptionsCreate.functions": None,
    "DescriptionsCreate.descriptions": {"enum": ["a photo of a sled in the snow", "a sled at night"]},
    "DescriptionsCreate.images": {"enum": [8]},
    "BugHuntCreate.prompt": {"enum": ["a photo of a <class>"]},
    # A budget that is too small is refused: the first is enough for two labels of 63 images each, and
    # the second is more than a run may have here.
    "BugHuntCreate.held_out": {"enum": [8]},
    "BugHuntCreate.hypotheses": {"enum": [1]},
    "BugHuntCreate.winners": {"enum": [1]},
    "BugHuntCreate.refine": {"enum": [0, 1]},
    "BugHuntCreate.captions": {"enum": [2, 4]},
    "HuntBudget.images": {"enum": [130, 800]},
    "AdversarialDatasetCreate.classifiers": CLASSIFIER,
    "AdversarialDatasetCreate.classes": None,
    "AdversarialDatasetCreate.parents": None,
    "AdversarialDatasetCreate.criterion": None,
    "AdversarialDatasetCreate.functions": None,
    "AdversarialDatasetCreate.spending": None,
    "AdversarialDatasetCreate.prompt": {"enum": ["a photo of a <class>"]},
    "AdversarialDatasetCreate.images": {"enum": [80, 100]},
    "AdversarialDatasetCreate.baseline": {"enum": [8]},
    "AdversarialDatasetCreate.reference": {"enum": ["demo", NOWHERE]},
    "DatasetSeeds.dataset": {"enum": ["demo", NOWHERE]},
    # The hunts here prove nothing, so that there is nothing to generate from.
    "HuntSeeds.run": {"enum": [NOWHERE]},
    "TransferCreate.classifiers": CLASSIFIER,
    "TransferCreate.criterion": None,
    "TransferCreate.functions": None,
    # The text names it.
    "GivenCaption.label": {"enum": ["plate"]},
    "GivenCaption.text": {"enum": ["a photo of a plate on the grass"]},
}
OTHERS: Choices = {
    "RunRename.name": WORDS,
    # No run here has a budget.
    "RunResume.spending": None,
    "JobCreate.cluster": {"enum": [NAME]},
    "WebhookCreate.url": {"enum": [WEBHOOK]},
    "GateCreate.digest": None,
    "GateCreate.classifiers": CLASSIFIER,
    "GateCreate.incumbent": CLASSIFIER,
    "GateCreate.functions": None,
}


def choices(live: Live) -> Choices:
    """Return them all, with those that name what a gateway has."""
    interfaces = live.known.runs["dataset-interface"]
    fooled = live.known.runs["adversarial-dataset"]
    return {
        **DATASETS,
        **STRESS_TESTS,
        **INTERFACES,
        **HUNTS,
        **OTHERS,
        "SourceUpload.content_base64": {"enum": [live.image]},
        "ShiftBenchmarkCreate.interface": {"enum": [*interfaces, NOWHERE]},
        "SignedUrlCreate.path": {"enum": [f"/v1/artifacts/{live.known.image}.png"]},
        "TransferCreate.source": {"enum": [*fooled, NOWHERE]},
        "RegressionSetOf.baseline": {"enum": [live.known.baseline, NOWHERE]},
        "GateCreate.baseline": {"enum": [live.known.baseline, NOWHERE]},
    }
