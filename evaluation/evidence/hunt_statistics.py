"""The page about the statistics of bug hunts: simulated hunts whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, figure, page, table
from evaluation.paths import RESULTS
from evaluation.validity.report import Part

FILE = RESULTS / "hunt-statistics.json"


class Share(Part):
    """A share of simulated hunts with its limit."""

    subject: str
    rate: Estimate
    limit: float
    side: str
    holds: bool


class RelativeError(Part):
    """The mean error of an estimate relative to its truth; ``holds`` is null where it is not promised."""

    relative_error: Estimate
    holds: bool | None


class Gain(Part):
    """How many times as many images naive sampling takes."""

    times: float
    least: float | None
    holds: bool | None


class HuntStatistics(Part):
    """`results/hunt-statistics.json`."""

    replicates: int
    seed: int
    shares: dict[str, Share]
    means: dict[str, RelativeError]
    gains: dict[str, Gain]


def hunt_statistics_page(file: Path = FILE) -> str:
    """Write the page."""
    found = HuntStatistics.model_validate_json(file.read_bytes())
    body = [
        "## Intervals of failure rates", "",
        "Each rule at its own stop, then for a user who looks sixty times and stops where the interval is"
        " wrong. An interval for a fixed number that is read at every look is the contrast, without a limit"
        " of ours.", "",
        *_shares(found, ("own stop", "looks", "contrast")), "",
        "## False bugs, and proven ones", "",
        "A hunt of eight descriptions, 200 images of the label, 400 of the descriptions, 96 held out a"
        " prompt, and two winners. Half of the hunts' noise may be shared by all prompts.", "",
        *_shares(found, ("family", "power", "held out")), "",
        "## The winner's curse", "",
        "The mean error relative to the truth, over eight descriptions that fail equally often. The"
        " sequential rule promises its interval and not its estimate.", "",
        *_means(found.means, lambda name: "rare" not in name), "",
        "## Rare failures", "",
        "Four circumstances fail in half of their images, and are so rare that the label fails as the name"
        " says; 2,000 images and a pilot of 32 for each. Where half of the failures is in no description,"
        " nothing is saved. The shares of the circumstances are known, as those of a `mixture` of prompts"
        " are. Where 2,000 captions of the label's own images tell them instead, they are no better known"
        " than the rate itself: as good as nothing is saved, and an interval that takes them for known does"
        " not hold. Two classifiers share their images in the last rows, of which 5 % do not count.", "",
        *table(
            ("label", "images that naive sampling takes, times", "limit"),
            (
                [name, f"{each.times:,.1f}", NONE if each.least is None else f"at least {each.least:g}"]
                for name, each in found.gains.items()
            ),
        ), "",
        *_means(found.means, lambda name: "rare" in name), "",
        *_shares(found, ("rare", "contrast of captions")),
    ]  # fmt: skip
    how = [
        f"- `python -m evaluation.hunt_statistics --replicates {found.replicates} --seed {found.seed}"
        " --out evaluation/results/hunt-statistics.json`",
        "",
        "Hunts are simulated by the functions that plan them; only the images are coins of a known bias.",
    ]
    return page("Statistics of bug hunts in simulation", _finding(found), body, how)


def _finding(found: HuntStatistics) -> str:
    least = min(each.rate.estimate or 0.0 for each in found.shares.values() if each.subject == "own stop")
    most = max(each.rate.estimate or 0.0 for each in found.shares.values() if each.subject == "family")
    curse, held = (found.means[f"{kind} rate of a winner, fixed"] for kind in ("discovery", "held-out"))
    gains = [each.times for each in found.gains.values() if each.least is not None]
    return (
        f"In {found.replicates:,} simulated experiments each, 95 % intervals of three sampling rules hold the"
        f" rate in {least:.3f} or more, a false bug is reported in {most:.3f} at most, the rate by which a"
        f" winner was chosen is {_percent(curse)} too high and its held-out rate {_percent(held)}, and rare"
        f" failures that descriptions cover take at least {min(gains):.0f} times fewer images than naively."
    )


def _percent(mean: RelativeError) -> str:
    return f"{100 * (mean.relative_error.estimate or 0.0):.1f} %"


def _shares(found: HuntStatistics, subjects: Iterable[str]) -> list[str]:
    wanted = set(subjects)
    return table(
        ("rate", "simulated", "limit"),
        (
            [name, figure(each.rate), NONE if "contrast" in each.subject else f"{each.side} {each.limit:g}"]
            for name, each in found.shares.items()
            if each.subject in wanted
        ),
    )


def _means(means: Mapping[str, RelativeError], wanted: Callable[[str], bool]) -> list[str]:
    return table(
        ("estimate", "relative error", "n", "promised"),
        (
            [
                name,
                figure(each.relative_error),
                f"{each.relative_error.n:,}",
                NONE if each.holds is None else "0",
            ]
            for name, each in means.items()
            if wanted(name)
        ),
    )
