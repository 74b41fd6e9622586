"""The stages of a hunt: baseline, captions, rounds of descriptions, refinement and held-out images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from counterpose_core.bug_hunt.budget import LEAST_ROUND, ROUNDS, promising, round_size
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntPhase
from counterpose_core.contract.runs import Run
from counterpose_core.contract.sampling_rules import FixedNumber
from counterpose_gateway.methods.bug_hunt.clock import TimeLeft
from counterpose_gateway.methods.bug_hunt.clustering import clusters_of, in_turns, plan_clusters
from counterpose_gateway.methods.bug_hunt.combining import plan_combinations
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.drawing import first_held_out, more_held_out, more_of_baseline
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.mentions import plan_mentions
from counterpose_gateway.methods.bug_hunt.mixture import plan_mixture
from counterpose_gateway.methods.bug_hunt.proposals import Proposal, proposals
from counterpose_gateway.methods.bug_hunt.ranking import refined, standings
from counterpose_gateway.methods.bug_hunt.refinement import new_forms, plan_refinement
from counterpose_gateway.methods.bug_hunt.samples import begun_until, plan_captions, plan_samples
from counterpose_gateway.methods.bug_hunt.varied import captions_to_edit, plan_varied
from counterpose_gateway.records.items import PlannedItem, numbered
from counterpose_gateway.runs.stages import StagePlan


def next_stage(run: Run, results: Iterable[HuntedItem]) -> StagePlan | None:
    """Plan the stage that follows, from what is recorded; None where nothing is left to find or to prove."""
    config = BugHuntConfig.model_validate(run.resolved_config)
    hunt = RecordedHunt.of(results)
    match hunt.last:
        case "baseline":
            planned = _more_of_baseline(config, hunt) or (
                [] if config.shares.varied else _clusters(config, hunt)
            )
            planned = planned or _captions(config, hunt)
        case "clusters":
            planned = _captions(config, hunt, "varied" if hunt.has_varied else "baseline")
            planned = planned or _combinations(config, hunt) or _first_round(config, hunt)
        case "captions":
            planned = _varied(config, hunt) or _combinations(config, hunt) or _first_round(config, hunt)
        case "varied":
            planned = _clusters(config, hunt) or _captions(config, hunt, "varied")
            planned = planned or _combinations(config, hunt) or _first_round(config, hunt)
        case "combination":
            planned = _first_round(config, hunt)
        case "hypothesis":
            planned = _next_round(config, hunt) or _refinement(config, hunt) or _held_out(config, hunt)
        case "refinement":
            planned = _refinement(config, hunt) or _held_out(config, hunt)
        case "held-out":
            planned = _more_held_out(config, hunt) or list(plan_mentions(config, hunt))
        case _:
            planned = []
    # Its rate is asked for whether or not a bug is found.
    planned = planned or plan_mixture(config, hunt)
    reserved = _reserved(config, _phase(planned[0])) if planned else 0
    until = TimeLeft.of(config, hunt).until(reserved=reserved)
    return StagePlan(numbered(begun_until(until, planned))) if planned else None


def _phase(item: PlannedItem) -> str:
    return "" if item.instruction is None else str(item.instruction["phase"])


def _reserved(config: BugHuntConfig, phase: str = "hypothesis") -> int:
    """Return the images whose time is kept back from a phase: held-out ones, and a round of descriptions.

    A mixture's, too, but for held-out images themselves, which go before it.
    """
    request = config.request
    if phase in ("pilot", "mixture"):
        return 0
    prompts = 0 if phase == "held-out" else 1 + min(request.winners, request.hypotheses)
    held_out = prompts * config.shares.held_out
    rounds = LEAST_ROUND * request.hypotheses if phase == "baseline" else 0
    mixture = 0 if phase == "held-out" else config.shares.mixture
    return len(request.labels) * (held_out + rounds + mixture)


def _more_of_baseline(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    planned: list[PlannedItem] = []
    time, labels = TimeLeft.of(config, hunt), config.request.labels
    for label in labels:
        made = len(hunt.of_label("baseline", label))
        wanted = more_of_baseline(config, hunt, label)
        more = time.cap(wanted, len(labels), reserved=_reserved(config, "baseline"))
        if more < min(wanted, LEAST_ROUND):
            continue
        told = HuntInstruction(phase="baseline", prompt=config.prompts[label])
        planned += plan_samples(config, label, told, range(made, made + more))
    return planned


def _clusters(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    return list(plan_clusters(config, hunt))


def _captions(config: BugHuntConfig, hunt: RecordedHunt, phase: HuntPhase = "baseline") -> list[PlannedItem]:
    """As many failures as successes of each classifier; an image that several need is captioned once.

    The likelihood needs captions of failures alone, which go on from the baseline's prompt.
    """
    most, planned = config.request.captions, list[PlannedItem]()
    for label in config.request.labels:
        free, forced = dict[str, HuntedItem](), dict[str, HuntedItem]()
        for classifier in config.request.classifiers:
            counted = hunt.counted(phase, label, classifier)
            # A label that always fails has nothing to be worse than.
            if counted.failures and counted.successes:
                of_phase = {item.id for item in counted.failures}
                turns = in_turns(clusters_of(config, hunt, label, classifier))
                failures = [item for item in turns if item.id in of_phase][:most]
                free.update((item.id, item) for item in (*failures, *counted.successes[:most]))
                forced.update((item.id, item) for item in failures)
        edit = captions_to_edit(config, hunt, label) if phase == "baseline" else []
        if config.request.words == "likelihood":
            free = {}
        free |= {item.id: item for item in edit}
        planned += plan_captions(label, free.values(), {item.id for item in edit})
        if config.request.words != "frequency":
            # The paper forces the label in: the captioner goes on from the baseline's prompt.
            planned += plan_captions(label, forced.values(), prompt=config.prompts[label])
    return planned


def _varied(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    """Images of edited captions, unless they are made or none are wanted."""
    labels, time = config.request.labels, TimeLeft.of(config, hunt)
    if hunt.has_varied:
        return []
    most = time.cap(config.shares.varied, len(labels), reserved=_reserved(config))
    return [item for label in labels for item in plan_varied(config, hunt, label, most)]


def _combinations(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    return list(plan_combinations(config, hunt)) if config.request.words != "frequency" else []


def _first_round(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    planned: list[PlannedItem] = []
    number, time = 0, TimeLeft.of(config, hunt)
    by_label = {label: proposals(config, hunt, label) for label in config.request.labels}
    total = sum(map(len, by_label.values()))
    for label, proposed in by_label.items():
        size = round_size(config.shares.hypotheses, len(proposed), ROUNDS)
        size = time.cap(size, total, reserved=_reserved(config))
        if size < LEAST_ROUND:
            continue
        for proposal in proposed:
            number += 1
            planned += plan_samples(config, label, _instruction(proposal, number), range(size))
    return planned


def _instruction(proposal: Proposal, number: int) -> HuntInstruction:
    return HuntInstruction(
        phase="hypothesis",
        prompt=proposal.description.prompt,
        hypothesis=number,
        source=proposal.description.source,
        words=proposal.description.words,
        classifiers=list(proposal.classifiers),
    )


def _next_round(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    """More images of the better half of each label's descriptions that are left."""
    if hunt.rounds >= ROUNDS:
        return []
    planned: list[PlannedItem] = []
    time, labels = TimeLeft.of(config, hunt), config.request.labels
    for label in labels:
        numbers = _of_label(hunt, label)
        if not numbers:
            continue
        spent = {number: len(hunt.of_label("hypothesis", label, number)) for number in numbers}
        # Those that were stopped in an earlier round have fewer images.
        last = [number for number in numbers if spent[number] == max(spent.values())]
        standing = standings(config, hunt, label)
        better = promising([standing[number][0] for number in last], max(1, len(last) // 2))
        left = config.shares.hypotheses - sum(spent.values())
        size = round_size(left, len(better), ROUNDS - hunt.rounds)
        size = time.cap(size, len(better) * len(labels), reserved=_reserved(config))
        if size >= LEAST_ROUND:
            for number in better:
                places = range(spent[number], spent[number] + size)
                planned += plan_samples(config, label, hunt.described[number][1], places)
    return planned


def _refinement(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    """New images of each winner and of shorter forms of it, while it has forms that were not tried."""
    # A hunt of an earlier version has it in its request alone.
    size, labels = config.shares.refine or config.request.refine or 0, config.request.labels
    if size == 0:
        return []
    won = {label: refined(config, hunt, label) for label in labels}
    forms = sum(new_forms(config, hunt, label, each) + len(each) for label, each in won.items())
    size = TimeLeft.of(config, hunt).cap(size, forms, reserved=_reserved(config))
    if size < LEAST_ROUND:
        return []
    planned: list[PlannedItem] = []
    for label, each in won.items():
        first = 1 + max([0, *hunt.described, *hunt.shortened, *_numbers(planned)])
        planned += plan_refinement(config, hunt, label, each, first=first, size=size)
    return planned


def _held_out(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    """Fresh images of each winner as refined, and of its baseline, from the same fresh noise."""
    won = {label: found for label in config.request.labels if (found := refined(config, hunt, label))}
    prompts = sum(1 + len(found) for found in won.values())
    size = TimeLeft.of(config, hunt).cap(first_held_out(config), prompts)
    if size < LEAST_ROUND:
        return []
    needed = {label: (range(size), [each.final.number for each in found]) for label, found in won.items()}
    return list(_held_out_samples(config, hunt, needed))


def _more_held_out(config: BugHuntConfig, hunt: RecordedHunt) -> list[PlannedItem]:
    """More held-out images where the rule is not decided; under the rule `fixed` none follow."""
    if isinstance(config.request.sampling, FixedNumber):
        return []
    won = [
        (label, each.final.number, each.classifier)
        for label in config.request.labels
        for each in refined(config, hunt, label)
    ]
    needed = {
        label: (places, list(dict.fromkeys(numbers)))
        for label, (places, numbers) in more_held_out(config, hunt, won).items()
    }
    prompts = sum(1 + len(numbers) for _, numbers in needed.values())
    time = TimeLeft.of(config, hunt)
    capped = {
        label: (places[: time.cap(len(places), prompts)], numbers)
        for label, (places, numbers) in needed.items()
    }
    return list(_held_out_samples(config, hunt, capped))


def _held_out_samples(
    config: BugHuntConfig, hunt: RecordedHunt, needed: Mapping[str, tuple[range, list[int]]]
) -> Iterator[PlannedItem]:
    for label, (places, numbers) in needed.items():
        base = HuntInstruction(phase="held-out", prompt=config.prompts[label])
        yield from plan_samples(config, label, base, places)
        for number in numbers:
            told = hunt.told(number).model_copy(update={"phase": "held-out"})
            yield from plan_samples(config, label, told, places)


def _of_label(hunt: RecordedHunt, label: str) -> list[int]:
    return list(hunt.descriptions(label))


def _numbers(planned: list[PlannedItem]) -> set[int]:
    told = (item.instruction or {} for item in planned)
    return {each["hypothesis"] for each in told if "hypothesis" in each}
