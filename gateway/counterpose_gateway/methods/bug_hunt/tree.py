"""The search as a tree: from a label alone over descriptions and their shorter forms to held-out images."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.bug_hunt_summary import (
    Bug,
    FailureRate,
    HypothesisResult,
    LabelBaseline,
    NodeKind,
    SearchNode,
)
from counterpose_core.contract.bug_hunts import HuntPhase
from counterpose_gateway.methods.bug_hunt.bugs import shown_images
from counterpose_gateway.methods.bug_hunt.hunt import Hunt

_OUTCOMES = {
    "needed": "its words are not enough",
    "not-needed": "fails as often",
    "cannot-tell": "cannot tell",
}
"""What a shorter form shows, by whether the words that it leaves out are needed."""


class _Tree:
    """Nodes in the order in which they are added, each after its parent."""

    def __init__(self, hunt: Hunt) -> None:
        self.nodes: list[SearchNode] = []
        self._record = hunt.record

    def add(
        self,
        parent: int | None,
        kind: NodeKind,
        of: tuple[str, str],
        prompt: str,
        outcome: str,
        failure: FailureRate,
        samples: tuple[HuntPhase, int | None],
    ) -> int:
        """Add a node of a label and classifier, and return its number."""
        label, classifier = of
        phase, number = samples
        items = self._record.of_label(phase, label, number)
        failures = self._record.counted(phase, label, classifier, number).failures
        self.nodes.append(
            SearchNode(
                number=len(self.nodes),
                parent=parent,
                kind=kind,
                label=label,
                classifier=classifier,
                prompt=prompt,
                outcome=outcome,
                failure=failure,
                seconds=sum(sum(item.result.service_seconds.values()) for item in items if item.result),
                images=shown_images(failures, classifier),
            )
        )
        return len(self.nodes) - 1


def search_tree(
    hunt: Hunt,
    baselines: Sequence[LabelBaseline],
    hypotheses: Sequence[HypothesisResult],
    bugs: Sequence[Bug],
) -> list[SearchNode]:
    """Return the nodes of all labels and classifiers, each after its parent."""
    tree = _Tree(hunt)
    own = {(bug.label, bug.classifier, bug.hypothesis): bug for bug in bugs}
    of_label: dict[str, list[HypothesisResult]] = {}
    for hypothesis in hypotheses:
        of_label.setdefault(hypothesis.label, []).append(hypothesis)
    for each in baselines:
        of = each.label, each.classifier
        samples: tuple[HuntPhase, None] = "baseline", None
        root = tree.add(None, "baseline", of, each.prompt, "the label alone", each.failure, samples)
        for hypothesis in of_label.get(each.label, ()):
            bug = own.get((*of, hypothesis.number))
            if hypothesis.classifier == each.classifier or bug is not None:
                _add_description(tree, hunt, root, hypothesis, bug)
    return tree.nodes


def _add_description(
    tree: _Tree, hunt: Hunt, root: int, hypothesis: HypothesisResult, bug: Bug | None
) -> None:
    classifier = hypothesis.classifier if bug is None else bug.classifier
    of, node = (hypothesis.label, classifier), root
    if hunt.record.of_label("hypothesis", hypothesis.label, hypothesis.number):
        outcome = hypothesis.state.replace("-", " ")
        node = tree.add(
            root,
            "description",
            of,
            hypothesis.prompt,
            outcome,
            hypothesis.discovery,
            ("hypothesis", hypothesis.number),
        )
    if bug is None:
        return
    places, final = {hypothesis.number: node}, hypothesis.number
    for form in bug.refinement:
        parent, outcome = places.get(form.refines, node), _OUTCOMES[form.need]
        places[form.number] = tree.add(
            parent, "form", of, form.prompt, outcome, form.failure, ("refinement", form.number)
        )
        if form.prompt == bug.description:
            final = form.number
    if hunt.record.of_label("held-out", hypothesis.label, final):
        outcome = bug.state.replace("-", " ")
        tree.add(places[final], "held-out", of, bug.description, outcome, bug.held_out, ("held-out", final))
