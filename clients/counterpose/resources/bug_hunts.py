"""``client.bug_hunts``: find failures of classifiers that nobody asked about, described in words."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Unpack

from counterpose._bug_hunt_run import BUG_HUNTS, AsyncBugHunt, BugHunt
from counterpose._options import LabelImageOptions, chosen, spells_out
from counterpose._python_function.model import AnyClassifier
from counterpose.resources.estimates import E, EstimatedVerbs
from counterpose.resources.runs import AsyncRunResource, H, RunResource
from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate
from counterpose_core.contract.bug_hunts import BugHuntCreate, HuntClusters, HuntWords
from counterpose_core.contract.mixtures import Mixture
from counterpose_core.contract.sampling_rules import SamplingRule


class HuntOptions(LabelImageOptions, total=False):
    """Options of a bug hunt.

    descriptions: of your own, to measure on held-out images instead of a search, such as "a photo of a fly
        at night".
    budget: most ``images`` (default: 3,000) and, if set, ``minutes`` by the clock.
    sampling: when enough images of a prompt are drawn, such as ``{"name": "sequential"}`` or
        ``{"name": "inverse", "failures": 20}``; default: as many as the budget gives.
    hypotheses: most descriptions that are measured for each label.
    winners: most of them that held-out images measure again.
    held_out: images of each of these, and of the label alone.
    refine: images of each shorter form of a winner, its parts alone and without its adjectives; 0 leaves
        winners as they are.
    vary: share of the label's images that are drawn from edited captions of the others instead.
    clusters: how failures are clustered before they are described, each cluster by itself: "none",
        "predicted" (by the class that they are taken for), or "features" (then by their images).
    words: how captions become descriptions: "frequency" compares words of failures and successes,
        "likelihood" combines the sentences that the captioner finds likeliest, or "both".
    sentences: most sentences that are combined.
    captions: most failures, and as many successes, to caption for each label and classifier.
    mentions: held-out images of a label alone to caption, which tells the share of all its images that fail
        as each bug says; 0 for none.
    mixture: prompts with known shares, on which each label's failure rate is measured in the end, however
        rare: ``{"images": 2000, "components": [{"prompt": "a photo of a <class> in the snow", "share":
        0.001}]}``; the label alone has the rest.
    """

    descriptions: Sequence[str]
    budget: Mapping[str, float] | None
    sampling: SamplingRule | Mapping[str, Any] | None
    hypotheses: int
    winners: int
    held_out: int
    refine: int
    vary: float
    clusters: HuntClusters
    words: HuntWords
    sentences: int
    captions: int
    mentions: int
    mixture: Mixture | Mapping[str, Any] | None


class _Creating(EstimatedVerbs[H, E]):
    """How a bug hunt is requested."""

    _calls = BUG_HUNTS

    @spells_out(BugHuntCreate, HuntOptions, LabelImageOptions)
    def create(
        self,
        *,
        classifiers: Sequence[AnyClassifier],
        labels: Sequence[str],
        seed: int = 0,
        idempotency_key: str | None = None,
        **options: Unpack[HuntOptions],
    ) -> H:
        """Start a hunt; it needs no image, and continues whether or not you wait for it.

        Args:
            classifiers: what to test; callables are served while this client is open.
            labels: what the images show; classes of all the classifiers.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
            options: those of `HuntOptions`.
        """
        body = BugHuntCreate.model_validate(
            {
                **self._named(classifiers),
                **chosen(options, HuntOptions),
                "labels": list(labels),
                "seed": seed,
            }
        )
        return self._take(BUG_HUNTS.create(body, idempotency_key))

    def estimate(
        self, *, labels: Sequence[str], classifiers: Sequence[AnyClassifier] = (), **settings: Any
    ) -> E:
        """Say what such a hunt would take and the smallest rates that it could find; nothing is drawn.

        Args:
            labels: as in `create`.
            classifiers: as in `create`; none is called, only their number matters.
            settings: the other arguments of `create`.

        Raises:
            InvalidRequest: an argument is out of range, or unknown.
        """
        given = {"labels": list(labels)} | {name: each for name, each in settings.items() if each is not None}
        return self._estimate(BugHuntCreate, BugHuntEstimate, classifiers, given)


class BugHunts(_Creating[BugHunt, BugHuntEstimate], RunResource[BugHunt]):
    """``/v1/bug-hunts``."""

    _handle = BugHunt


class AsyncBugHunts(
    _Creating[Coroutine[Any, Any, AsyncBugHunt], Coroutine[Any, Any, BugHuntEstimate]],
    AsyncRunResource[AsyncBugHunt],
):
    """``/v1/bug-hunts``."""

    _handle = AsyncBugHunt
