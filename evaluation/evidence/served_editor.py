"""The page about a stress test whose editor is a server that plants faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.evidence.markdown import NONE, cells, figure, page, table
from evaluation.paths import RESULTS
from evaluation.served_editor.plan import FAULTY, PLANS, WITH_REGION

SERVED = RESULTS / "served-editor.json"
CUTOUTS = RESULTS / "served-cutouts.json"
GATE = (
    "kept without a fault",
    "kept without a fault, of faults that can be told",
    "kept without a fault, if nothing were refused",
    "refused with a fault",
    "false refusals",
    "kept in the end, without a fault",
    "left out: the change is not seen",
    "left out: another filter dropped it before",
)
BY_KIND = ("shift", "zoom", "leak")
LATER = ("controls found", "n", "by the region", "n")
BUGS = ("editor", "bugs found", "n", "insights", "of them false", "classifiers with a false alarm", "missed")
SEEN = (
    "Of edits whose change can be seen. A leak, other colours and a second change cannot be told of an edit",
    "whose region nobody gave: the gate keeps them.",
)
PLANTED = (
    "*Edits refused* is of those that reached the gate. *By any filter* is of all edits with this fault: the",
    "filters of CLIP come first. Controls are images that were to be left as they are. *By the region* is",
    "what the same limits say where they get the exact region, which this run has not; an edit of all of it",
    "has none.",
)
REGIONED = (
    "The same server and shares of faults. The sources have the masks of their objects, the run names a",
    "region and refuses every fault, and the server takes the mask (`mask = true`) but plants its faults",
    "outside the region. Where the true counterfactual itself changes what the region keeps, visibly and by",
    "more than a pixel's edge, an answer is neither right nor wrong: the edit is left out of all other",
    "figures here. *By the limits* is of all answered edits with this fault, whatever CLIP's filters say.",
)
MASKED = ("region", "fault", "edits refused", "n", "by any filter", "n", "by the limits", "n")
Told = Mapping[str, Any]


def served_page(file: Path = SERVED) -> str:
    """Write the page."""
    made: Told = json.loads(file.read_bytes())
    faulty, setting, regions = made["faulty"], made["setting"], made[WITH_REGION]["runs"]
    seeds = " and ".join(str(each["seed of the plan"]) for each in regions.values())
    sources = " and ".join(f"{each['sources']} (`{name}`)" for name, each in regions.items())
    left = faulty["by the exact region"]["left out: all of the image was to change"]
    asked = faulty["gate"]["false refusals by what was asked"]
    gate = [[name, *_share(faulty["gate"][name])] for name in GATE]
    refused = [[name, *_share(each)] for name, each in asked.items()]
    groups = table(("fault", "edits refused", "n", "by any filter", "n", *LATER), _groups(faulty))
    kinds = table(("fault", "edits refused", "n", *LATER), _kinds(faulty))
    body = [
        *_section("Aims", table(("aim", "target", "reached", "n", "met"), map(_aim, made["aims"]))),
        *_section("The gate, by the oracle", SEEN, table(("figure", "share", "n"), gate)),
        *_section("Right edits that are refused", table(("asked for", "refused", "n"), refused)),
        *_section("Planted faults", [*PLANTED, f"Left out there: {_of(left)} of edits."], groups),
        *_section("Planted faults, by kind and size", kinds),
        *_section("Planted bugs", table(BUGS, _bugs(made))),
        *_section("Other behaviour of the server", _outcomes(faulty["outcomes"])),
        *_with_region(made[WITH_REGION]),
        *_on_cutouts(json.loads(CUTOUTS.read_bytes())),
    ]
    how = [
        f"- `make validate-served SOURCES={setting['sources']}`: {setting['sources']} sources of stretch"
        f" {setting['stretch of sources']}, the first of those that `quick` was validated on,"
        f" {setting['planned edits of a source']} planned edits each,"
        f" {len(setting['classifiers'])} classifiers; the plan draws by seed {setting['seed of the plan']}.",
        f"- With a region: {sources} of these sources, one classifier; the plans draw by the seeds {seeds}.",
        "",
        "- Cut-outs: `python -m evaluation.served_editor.cutouts STAMPS MODELS`, on a folder of the package",
        "  tuxpaint-stamps-default, which is under the GPL and no part of this repository.",
        "",
        "Gateway, worker, ledger and services run in one process, and the editor asks a server on loopback.",
        "The server knows the scene of each image, renders the change that the instruction names, and plants",
        "a fault by a seeded plan. Nothing was tuned on these figures, and no kind or size of a fault is one",
        "that limits were set on. Intervals are 95 % Wilson or Clopper-Pearson intervals; the edits of one",
        "source count as independent. `quick` was tested with more classifiers at once, so its family",
        "of tests was larger. [How preservation is measured](../design/preservation.md).",
    ]
    return page("A stress test on a server that plants faults", finding(made), body, how)


def finding(made: Told) -> str:
    """Say what the gate lets through, what it refuses wrongly, and whether bugs are found."""
    faulty = made["faulty"]
    gate, bugs = faulty["gate"], faulty["bugs"]["planted bugs found"]
    told, false = gate["kept without a fault, of faults that can be told"], gate["false refusals"]
    # Faults that nobody would see are planned, and not planted.
    answers = faulty["outcomes"]["answers by group"]
    share = proportion(sum(answers.get(group, 0) for group in FAULTY), sum(answers.values()))
    regions = {name: each["gate"] for name, each in made[WITH_REGION]["runs"].items()}
    kept = " and ".join(f"{_of(each['kept without a fault'])} (`{name}`)" for name, each in regions.items())
    wrong = " and ".join(_of(each["false refusals"]) for each in regions.values())
    return (
        f"Where {_of(share.model_dump())} of a server's answers are faulty,"
        f" {_of(gate['kept without a fault'])} of the edits that the gate keeps have no fault,"
        f" and {_of(told)} have none of those that can be told without a region;"
        f" {_of(false)} of right edits are refused. Of the planted bugs {_of(bugs)} are found."
        f" With a region, {kept} of the kept edits have no fault; {wrong} of right edits are refused."
    )


ON_CUTOUTS = (
    "Photographs without CLIP: captions, masks and changes of words are the user's, and the suite has none",
    "of the scorer's models. Edits ask for another ground behind the object; one server obeys, one",
    "moves the object besides, one turns its hues. Registration, SSIM and colour alone decide.",
)


def _on_cutouts(made: Told) -> Iterator[str]:
    rows = [
        [arm, "as asked" if fault in ("none", "unseen") else fault, *_share(refused)]
        for arm, told in made["arms"].items()
        for fault, refused in told["refused"].items()
    ]
    obeyed = made["arms"]["as asked"]["accuracy"]
    kept = f"{_of(obeyed['drop'])} from {_of(obeyed['source'])}"
    left = {arm: told["left out"] for arm, told in made["arms"].items()}
    yield from _section(
        "Cut-outs without CLIP",
        ON_CUTOUTS,
        table(("server", "what it did", "refused", "n"), rows),
        [
            f"{made['cutouts']} cut-outs before two other grounds. Left out, by server and reason: {left}.",
            f"On the honest server the classifier's accuracy falls by {kept}.",
            f"The report says: {told_of(made)}",
        ],
    )


def told_of(made: Told) -> str:
    """What the report of the honest server says is absent."""
    return " ".join(made["arms"]["as asked"]["absent"])


def _section(title: str, *blocks: Iterable[str]) -> Iterator[str]:
    yield from (f"## {title}", "")
    for block in blocks:
        yield from (*block, "")


def _of(told: Told) -> str:
    estimate = Estimate.model_validate(told)
    return f"{figure(estimate)} (n = {estimate.n})"


def _share(told: Told | None) -> tuple[str, str]:
    return cells(None if told is None else Estimate.model_validate(told))


def _aim(aim: Told) -> list[str]:
    met = {None: "unknown", True: "yes", False: "**no**"}[aim["met"]]
    return [aim["name"], aim["aim"], *_share(aim["reached"]), met]


def _groups(faulty: Told) -> Iterator[list[str]]:
    controls, regions = faulty["planted in controls"], faulty["by the exact region"]
    for group, each in faulty["planted in edits"].items():
        yield [
            group,
            *_share(each["refused for preservation"]),
            *_share(each["dropped by any filter of images"]),
            *_share(controls.get(group, {}).get("found")),
            *_share(regions.get(group, {}).get("found")),
        ]
    yield [
        "none",
        *_share(faulty["gate"]["false refusals"]),
        *_share(None),
        *_share(controls["without a fault, and called faulty"]),
        *_share(regions["obeys"]["found"]),
    ]


def _kinds(faulty: Told) -> Iterator[list[str]]:
    controls, regions = faulty["planted in controls"], faulty["by the exact region"]
    for group in BY_KIND:
        edits = faulty["planted in edits"][group]["by kind"]
        for kind in edits:
            yield [
                f"{group}: {kind}",
                *_share(edits[kind]),
                *_share(controls[group]["by kind"].get(kind)),
                *_share(regions.get(group, {}).get("by kind", {}).get(kind)),
            ]


def _with_region(told: Told) -> Iterator[str]:
    runs: Told = told["runs"]
    gate = (
        [f"`{name}`", figure, *_share(each["gate"][figure])]
        for name, each in runs.items()
        for figure in GATE
        if figure in each["gate"]
    )
    asked = (
        [
            f"`{name}`",
            attribute,
            *_share(each["gate"]["false refusals by what was asked"].get(attribute)),
            *_share(left),
        ]
        for name, each in runs.items()
        for attribute, left in each["left out"]["by what was asked"].items()
    )
    yield from _section(
        "With a region", REGIONED, table(("aim", "target", "reached", "n", "met"), map(_aim, told["aims"]))
    )
    yield from (*table(("region", "figure", "share", "n"), gate), "")
    yield from (*(f"- {_left_out(name, each['left out'])}" for name, each in runs.items()), "")
    yield from (*table(("region", "asked for", "right edits refused", "n", "left out", "n"), asked), "")
    yield from (*table(MASKED, _masked(runs)), "")
    yield from (
        *table(
            ("fault, by the limits", *(cell for name in runs for cell in (f"`{name}`", "n"))),
            _masked_kinds(runs),
        ),
        "",
    )


def _left_out(name: str, left: Told) -> str:
    reasons = "; ".join(f"{reason}: {count}" for reason, count in left["by reason"].items())
    return (
        f"`{name}`: {_of(left['edits'])} of the answered edits are left out ({reasons}). Of those that the"
        f" server made as asked for, {_of(left['refused, of those as asked for'])} are refused."
    )


def _masked(runs: Told) -> Iterator[list[str]]:
    for name, each in runs.items():
        limits = each["by the limits alone"]
        for group, planted in each["planted in edits"].items():
            shares = (planted["refused for preservation"], planted["dropped by any filter of images"])
            found = limits.get(group, {}).get("found")
            yield [f"`{name}`", group, *(cell for share in (*shares, found) for cell in _share(share))]
        yield [
            f"`{name}`",
            "none",
            *_share(each["gate"]["false refusals"]),
            *_share(None),
            *_share(None),
        ]


def _masked_kinds(runs: Told) -> Iterator[list[str]]:
    for group in ("leak", "recolour", "over-edit"):
        kinds = [each["by the limits alone"].get(group, {}).get("by kind", {}) for each in runs.values()]
        for kind in sorted(set().union(*kinds)):
            yield [f"{group}: {kind}", *(cell for each in kinds for cell in _share(each.get(kind)))]


def _bugs(made: Told) -> Iterator[list[str]]:
    rows = {f"{name} server": made[name]["bugs"] for name in PLANS if name in made}
    quick = rows["faulty server"]["quick"]
    rows[f"`quick`, {quick['sources']} sources"] = quick
    for name, each in rows.items():
        false = Estimate.model_validate(each["false alarms"])
        yield [
            name,
            *_share(each["planted bugs found"]),
            str(false.n),
            figure(false),
            ", ".join(each["alarmed"]) or NONE,
            ", ".join(each["missed"]) or NONE,
        ]


def _outcomes(told: Told) -> list[str]:
    return [
        f"- {told['questions refused by policy']} questions were refused by policy; "
        f"{told['items filtered as refused by policy']} items ended as `policy`.",
        f"- Of images in another size, {_of(told['another size, recorded as drift'])} are recorded as such.",
        f"- {told['late questions']} questions were answered after the client's patience;"
        f" {told['items with an image that came late at first']} items have the image of a later try.",
        f"- {_of(told['items that ended with an error'])} of all items ended with an error.",
    ]
