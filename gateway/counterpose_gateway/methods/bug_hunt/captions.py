"""Captions of the images that propose descriptions: of failures beside successes."""

from __future__ import annotations

from collections.abc import Iterator

from counterpose_core.contract.bug_hunts import HuntPhase
from counterpose_gateway.methods.bug_hunt.clustering import clusters_of, in_turns
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.samples import plan_captions
from counterpose_gateway.methods.bug_hunt.varied import captions_to_edit
from counterpose_gateway.records.items import PlannedItem


def plan_contrast(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan captions of as many failures as successes of each classifier; each image has one that is free.

    The likelihood needs captions of failures alone, which go on from the baseline's prompt.
    """
    most, words = hunt.request.captions, hunt.request.words
    phase: HuntPhase = "varied" if hunt.record.has("varied") else "baseline"
    for label in hunt.request.labels:
        free, forced = dict[str, HuntedItem](), dict[str, HuntedItem]()
        for classifier in hunt.request.classifiers:
            counted = hunt.record.counted(phase, label, classifier)
            # A label that always fails has nothing to be worse than.
            if counted.failures and counted.successes:
                of_phase = {item.id for item in counted.failures}
                turns = in_turns(clusters_of(hunt, label, classifier))
                failures = [item for item in turns if item.id in of_phase][:most]
                free.update((item.id, item) for item in (*failures, *counted.successes[:most]))
                forced.update((item.id, item) for item in failures)
        edit = captions_to_edit(hunt, label) if phase == "baseline" else []
        if words == "likelihood":
            free = {}
        free |= {item.id: item for item in edit}
        yield from plan_captions(label, free.values(), {item.id for item in edit})
        if words != "frequency":
            # The paper forces the label in: the captioner goes on from the baseline's prompt.
            yield from plan_captions(label, forced.values(), prompt=hunt.config.prompts[label])
