"""``client.bug_hunts``: find failures of classifiers that nobody asked about, described in words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from faultline._bug_hunt_run import BUG_HUNTS, AsyncBugHunt, BugHunt
from faultline._calls import Call, reading
from faultline._python_function.model import AnyClassifier
from faultline.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from faultline_core.contract.bug_hunt_estimates import BugHuntEstimate
from faultline_core.contract.bug_hunts import VARY, BugHuntCreate, HuntClusters, HuntWords
from faultline_core.contract.failure_criteria import Criterion
from faultline_core.contract.mixtures import Mixture
from faultline_core.contract.sampling_rules import SamplingRule
from faultline_core.errors import InvalidRequest

E = TypeVar("E")


def _estimate_call(body: BugHuntCreate) -> Call[BugHuntEstimate]:
    return Call(method="POST", path=f"{BUG_HUNTS.root}:estimate", body=body, parse=reading(BugHuntEstimate))


class _Creating(RunVerbs[H], Generic[H, E]):
    """How a bug hunt is requested."""

    _calls = BUG_HUNTS

    def create(
        self,
        *,
        classifiers: Sequence[AnyClassifier],
        labels: Sequence[str],
        descriptions: Sequence[str] = (),
        budget: Mapping[str, float] | None = None,
        classes: Sequence[str] | None = None,
        parents: Mapping[str, str] | None = None,
        criterion: Criterion | Mapping[str, Any] | None = None,
        sampling: SamplingRule | Mapping[str, Any] | None = None,
        hypotheses: int = 8,
        winners: int = 2,
        held_out: int = 96,
        refine: int = 0,
        vary: float = VARY,
        clusters: HuntClusters = "none",
        words: HuntWords = "frequency",
        sentences: int = 4,
        captions: int = 32,
        mentions: int = 0,
        mixture: Mixture | Mapping[str, Any] | None = None,
        prompt: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        scheduler: str | None = None,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> H:
        """Start a hunt; it needs no image, and continues whether or not you wait for it.

        Args:
            classifiers: what to test; callables are served while this client is open.
            labels: what the images show; classes of all the classifiers.
            descriptions: of your own, to measure on held-out images instead of a search, such as "a photo of
                a fly at night".
            budget: most ``images`` (default: 3,000) and, if set, ``minutes`` by the clock.
            classes: among which the classifiers choose; default: those that all of them have.
            parents: the parent of a class, such as "insect" for "fly", for the prompt and ``no-relative``.
            criterion: what counts as a failure, such as ``{"name": "not-in-top", "k": 3}``; default: the
                first answer is not the label.
            sampling: when enough images of a prompt are drawn, such as ``{"name": "sequential"}`` or
                ``{"name": "inverse", "failures": 20}``; default: as many as the budget gives.
            hypotheses: most descriptions that are measured for each label.
            winners: most of them that held-out images measure again.
            held_out: images of each of these, and of the label alone.
            refine: images of each shorter form of a winner, its parts alone and without its adjectives; 0
                leaves winners as they are.
            vary: share of the label's images that are drawn from edited captions of the others instead.
            clusters: how failures are clustered before they are described, each cluster by itself: "none",
                "predicted" (by the class that they are taken for), or "features" (then by their images).
            words: how captions become descriptions: "frequency" compares words of failures and successes,
                "likelihood" combines the sentences that the captioner finds likeliest, or "both".
            sentences: most sentences that are combined.
            captions: most failures, and as many successes, to caption for each label and classifier.
            mentions: held-out images of a label alone to caption, which tells the share of all its images
                that fail as each bug says; 0 for none.
            mixture: prompts with known shares, on which each label's failure rate is measured in the end,
                however rare: ``{"images": 2000, "components": [{"prompt": "a photo of a <class> in the
                snow", "share": 0.001}]}``; the label alone has the rest.
            prompt: the prompt of the label alone, with ``<class>``; default: the suite's.
            steps: denoising steps; default: the suite's.
            guidance: guidance scale; default: the suite's.
            scheduler: diffusion scheduler; default: the suite's.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
        """
        optional = {
            "budget": budget,
            "criterion": criterion,
            "parents": parents,
            "sampling": sampling,
            "mixture": mixture,
        }
        body = BugHuntCreate.model_validate(
            {
                **self._named(classifiers),
                **{name: value for name, value in optional.items() if value is not None},
                "labels": list(labels),
                "descriptions": list(descriptions),
                "classes": None if classes is None else list(classes),
                "hypotheses": hypotheses,
                "winners": winners,
                "held_out": held_out,
                "refine": refine,
                "vary": vary,
                "clusters": clusters,
                "words": words,
                "sentences": sentences,
                "captions": captions,
                "mentions": mentions,
                "prompt": prompt,
                "steps": steps,
                "guidance": guidance,
                "scheduler": scheduler,
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
        names = [f"model-{number}" for number, _ in enumerate(classifiers or (None,), 1)]
        given = {name: value for name, value in settings.items() if value is not None}
        try:
            body = BugHuntCreate.model_validate(
                {"seed": 0, **given, "labels": list(labels), "classifiers": names}
            )
        except ValidationError as error:
            raise InvalidRequest(f"no such bug hunt: {error}") from error
        return self._estimated(_estimate_call(body))

    @abstractmethod
    def _estimated(self, call: Call[BugHuntEstimate]) -> E: ...


class BugHunts(_Creating[BugHunt, BugHuntEstimate], RunResource[BugHunt]):
    """``/v1/bug-hunts``."""

    _handle = BugHunt

    def _estimated(self, call: Call[BugHuntEstimate]) -> BugHuntEstimate:
        return self._sender.send(call)


class AsyncBugHunts(
    _Creating[Coroutine[Any, Any, AsyncBugHunt], Coroutine[Any, Any, BugHuntEstimate]],
    AsyncRunResource[AsyncBugHunt],
):
    """``/v1/bug-hunts``."""

    _handle = AsyncBugHunt

    async def _estimated(self, call: Call[BugHuntEstimate]) -> BugHuntEstimate:
        return await self._sender.send(call)
