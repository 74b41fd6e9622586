"""How likely a run's captions are under the language model that weighed them (LANCE, section 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from faultline_core.contract.perturber import TextLikelihood
from faultline_core.contract.realism import PerplexityRow, PerplexitySummary
from faultline_core.contract.runs import Item
from faultline_core.perplexity import perplexity
from faultline_core.realism import Refused
from faultline_core.types import ItemKind
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.records import LANGUAGE_MODEL

ROWS: Mapping[str, ItemKind] = MappingProxyType(
    {"original": "reconstruction", "placebo": "placebo", "lance-r": "lance-r", "counterfactual": "edit"}
)
"""Row of the summary → the kept items whose captions it is about; a reconstruction's is the original's."""

_Weighed = tuple[str, TextLikelihood]


def summarize_perplexity(items: Sequence[Item], estimator: Estimator) -> PerplexitySummary | None:
    """Measure each set of captions; None where the run recorded no likelihoods."""
    seen: dict[tuple[str, ItemKind], list[_Weighed]] = {}
    for item in items:
        if item.state == "done" and item.result is not None and item.result.likelihood is not None:
            model = item.result.models.get(LANGUAGE_MODEL, "")
            seen.setdefault((model, item.kind), []).append((item.source_id, item.result.likelihood))
    counts = Counter({model: 0 for model, _ in seen})
    for (model, _), found in seen.items():
        counts[model] += len(found)
    if not counts:
        return None
    # Figures of two models do not compare: the one that weighed most is told.
    told = max(sorted(counts), key=counts.__getitem__)
    rows = {row: seen[told, kind] for row, kind in ROWS.items() if (told, kind) in seen}
    return PerplexitySummary(
        language_model=told,
        rows={row: _row(row, found, told, estimator) for row, found in rows.items()},
    )


def _row(name: str, weighed: Sequence[_Weighed], model: str, estimator: Estimator) -> PerplexityRow:
    # One entry a source: its captions share most of their words.
    entries: dict[str, tuple[float, int]] = {}
    for source, likelihood in weighed:
        nats, number = entries.get(source, (0.0, 0))
        entries[source] = (nats + likelihood.nats, number + likelihood.tokens)
    found = perplexity(
        list(entries.values()), estimator.generator(f"perplexity/{name}"), language_model=model
    )
    return PerplexityRow(
        perplexity=None if isinstance(found, Refused) else found.perplexity,
        no_perplexity=found.reason if isinstance(found, Refused) else "",
        tokens=sum(likelihood.tokens for _, likelihood in weighed),
        n_captions=len(weighed),
    )
