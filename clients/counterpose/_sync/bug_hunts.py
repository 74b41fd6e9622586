# Generated from clients/counterpose/_async/bug_hunts.py by clients/blocking_half.py; do not edit.
"""``client.bug_hunts``: find failures of classifiers that nobody asked about, described in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._options import HuntOptions, LabelImageOptions, chosen, label_map_of, spells_out
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose._sync.run_handle import RunHandle
from counterpose._sync.run_resource import RunResource
from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion
from counterpose_core.contract.bug_hunt_summary import Bug, BugHuntSummary
from counterpose_core.contract.bug_hunts import BugHuntCreate, DescriptionsCreate, HuntItem
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.runs import Run


class BugHunt(RunHandle[HuntItem, BugHuntSummary]):
    """A bug hunt, followed by blocking calls."""

    _calls = RunCalls("bug-hunt", HuntItem, BugHuntSummary)

    def measure(
        self,
        *descriptions: str,
        images: int | None = None,
        photographs: Mapping[str, str] | None = None,
        seed: int | None = None,
        idempotency_key: str | None = None,
    ) -> BugHunt:
        """Measure descriptions of your own by a child run, on fresh images beside the label alone.

        Each classifier of the hunt is tested on each; ``bugs(proven=False)`` of the child has all of them.

        Args:
            descriptions: prompts such as "a photo of a fly at night", which name a label of the hunt and no
                other class.
            images: of each description and of the label alone; default: the hunt's held-out images.
            photographs: names of two datasets of yours as external check of one description: ``described``,
                whose images of the label fit it, and ``alone``, of the label otherwise.
            seed: default: one that follows from the hunt's own, another one for each child.
            idempotency_key: makes a repeated call return the first run.

        Raises:
            InvalidRequest: a description names no label of the hunt, or another class, or words that the
                generator does not know.
            RunNotEnded: the hunt has not ended.
        """
        fields: dict[str, Any] = {"descriptions": list(descriptions), "images": images, "seed": seed}
        if photographs is not None:
            fields["photographs"] = dict(photographs)
        call = Call(
            "POST",
            self._calls.path(self.id, "/descriptions"),
            reading(Run),
            body=checked(DescriptionsCreate, fields),
            headers=idempotency_headers(idempotency_key),
        )
        return BugHunt(self._sender, self._sender.send(call))

    def bugs(self, *, proven: bool = True) -> list[Bug]:
        """Return the bugs that held-out images prove, the surest first.

        Args:
            proven: with False, also those that held-out images do not prove, each with its state.
        """
        summary = self.summary()
        return [bug for bug in summary.bugs if bug.state == "breaks" or not proven]


class BugHunts(RunResource[BugHunt]):
    """``/v1/bug-hunts``."""

    _handle = BugHunt

    @spells_out(BugHuntCreate, HuntOptions, LabelImageOptions)
    def create(
        self,
        *,
        classifiers: Sequence[AnyClassifier],
        labels: Sequence[str],
        seed: int = 0,
        idempotency_key: str | None = None,
        **options: Unpack[HuntOptions],
    ) -> BugHunt:
        """Start a hunt; it needs no image, and continues whether or not you wait for it.

        Args:
            classifiers: what to test; callables are served while this client is open.
            labels: what the images show; classes of all the classifiers.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
            options: those of `HuntOptions`.
        """
        fields = {"labels": list(labels), "seed": seed}
        settings = self._named(classifiers) | chosen(options, HuntOptions) | fields
        return self._create(checked(BugHuntCreate, settings), idempotency_key)

    def estimate(
        self, *, labels: Sequence[str], classifiers: Sequence[AnyClassifier] = (), **settings: Any
    ) -> BugHuntEstimate:
        """Say what such a hunt would take and the smallest rates that it could find, or refuse what it would.

        Nothing is created; one image of each label is drawn, to see that the generator knows its words.

        Args:
            labels: as in `create`.
            classifiers: as in `create`; without any, only the budget is looked at, for one.
            settings: the other arguments of `create`.

        Raises:
            InvalidRequest: an argument is out of range, or unknown.
            CounterposeError: as the hunt would be refused.
        """
        given = {"labels": list(labels)} | {name: each for name, each in settings.items() if each is not None}
        if "label_map" in given:
            given["label_map"] = label_map_of(given["label_map"])
        return self._estimate(BugHuntQuestion, BugHuntEstimate, classifiers, given)
