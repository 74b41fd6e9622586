"""Prompt-to-prompt: carry the source picture's attention over to its edits (Hertz et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from faultline_core.editing.denoiser import AttentionSite
from faultline_core.editing.prompt_alignment import Alignment
from faultline_core.errors import AttentionNotHooked

SELF_INJECTION_QUERIES = 32**2
"""Self-attention is injected in layers with at most so many positions, as published."""
LOCAL_BLEND_QUERIES = 16**2
"""Local blend looks at the finest cross-attention maps of at most so many positions, as published."""


@dataclass(frozen=True)
class CrossEdit:
    """A linear map of cross-attention maps: ``(source @ mapper * kept + target * (1 - kept)) * gain``.

    ``mapper`` (B, Ls, Lt) carries source tokens to target tokens, ``kept`` (B, Lt) is 1 where the target
    token takes the source's map and 0 where it keeps its own, ``gain`` (B, Lt) weighs each token.
    """

    mapper: Tensor
    kept: Tensor
    gain: Tensor

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """Edit target maps (B, heads, queries, Lt) given source maps (B, heads, queries, Ls)."""
        edit = self.to(target)
        kept = edit.kept[:, None, None]
        carried = source @ edit.mapper[:, None]
        return (carried * kept + target * (1 - kept)) * edit.gain[:, None, None]

    def rows(self, start: int, stop: int) -> CrossEdit:
        """Take some edits of a batch."""
        return CrossEdit(self.mapper[start:stop], self.kept[start:stop], self.gain[start:stop])

    def to(self, like: Tensor) -> CrossEdit:
        """Move to the type and device of another tensor."""
        return CrossEdit(self.mapper.to(like), self.kept.to(like), self.gain.to(like))

    @classmethod
    def stack(cls, edits: Sequence[CrossEdit]) -> CrossEdit:
        """Join edits into one batch."""
        return cls(
            torch.cat([edit.mapper for edit in edits]),
            torch.cat([edit.kept for edit in edits]),
            torch.cat([edit.gain for edit in edits]),
        )


def _follow_tails(mapper: Tensor, alignment: Alignment) -> None:
    """Map end mark and padding, which carry the whole sentence, in order; the last serves the rest."""
    last = mapper.shape[0] - 1
    for offset, target in enumerate(range(alignment.target_tail, mapper.shape[1])):
        mapper[min(alignment.source_tail + offset, last), target] = 1.0


def _carry(mapper: Tensor, source: Sequence[int], target: Sequence[int]) -> None:
    """Hand a word's attention on: token by token, or spread evenly over a word of another token count."""
    if len(source) == len(target):
        mapper[list(source), list(target)] = 1.0
        return
    # As in the released code: two tokens for one halve its map, one token for two takes the sum of theirs.
    for i in source:
        mapper[i, list(target)] = 1.0 / len(target)


def _cross_edit(alignment: Alignment, length: int, *, carry_changed: bool) -> CrossEdit:
    # float64 until a model's maps say otherwise: shares such as a third of a word are rounded once, at the
    # end.
    mapper = torch.zeros(length, length, dtype=torch.float64)
    kept = torch.ones(length, dtype=torch.float64)
    mapper[0, 0] = 1.0
    _follow_tails(mapper, alignment)
    for pair in alignment.pairs:
        if pair.same or (carry_changed and pair.source):
            _carry(mapper, pair.source, pair.target)
        else:
            kept[list(pair.target)] = 0.0
    return CrossEdit(mapper[None], kept[None], torch.ones(1, length, dtype=torch.float64))


def replace_words(alignment: Alignment, length: int) -> CrossEdit:
    """Replace: a new word takes the maps of the word it stands for (section 3.2, word swap)."""
    return _cross_edit(alignment, length, carry_changed=True)


def refine(alignment: Alignment, length: int) -> CrossEdit:
    """Refine: words in both captions keep the source's maps, new words find their own (section 3.2)."""
    return _cross_edit(alignment, length, carry_changed=False)


def reweight(edit: CrossEdit, positions: Sequence[int], weight: float) -> CrossEdit:
    """Re-weight: multiply the maps of the tokens at ``positions`` on top of another edit (section 3.2)."""
    gain = edit.gain.clone()
    gain[:, list(positions)] = weight
    return replace(edit, gain=gain)


def cross_edit(alignment: Alignment, length: int, *, word_weight: float) -> CrossEdit:
    """Choose the edit for a pair of captions: refine, and replace when word stands for word; then re-weight.

    LANCE's released code always refines. With a word for each word there is a map to take over, which
    keeps place and size; where words were added or removed there is none, and refine is right.
    """
    base = replace_words(alignment, length) if alignment.is_replacement else refine(alignment, length)
    return reweight(base, alignment.added, word_weight)


@dataclass
class PromptToPrompt:
    """Attention of one denoiser call whose rows are: sources | targets unconditional | targets conditional.

    The unconditional rows are never touched. ``source_of`` (T,) names the source row of each target,
    ``cross`` edits the maps while that is on (None when it is off), ``injected`` (T,) says which targets
    take the source's self-attention, ``heat`` collects maps for local blend where there is one.
    ``row_map_bytes`` is the size of the maps that were computed for each source and each target.
    """

    source_of: Tensor
    sources: int
    cross: CrossEdit | None
    injected: Tensor
    collect: bool = False
    cross_sites: int = 0
    self_sites: int = 0
    row_map_bytes: int = 0

    def __post_init__(self) -> None:
        self._maps: dict[int, list[Tensor]] = {}
        # Told apart where the flags lie, on the host as a rule: a device would have to be waited for.
        self._injected_rows = self.injected.nonzero().flatten().to(self.source_of.device)

    @property
    def map_bytes(self) -> int:
        """Bytes of all attention maps computed so far outside of a fused kernel."""
        return self.row_map_bytes * (self.sources + self.source_of.shape[0])

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend as the edit wants it."""
        if site.is_cross:
            self.cross_sites += 1
            return self._cross(query, key, value)
        self.self_sites += 1
        return self._self(query, key, value)

    def _self(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Inject softmax(Q_source K_source) V_target: the source's map, never materialised."""
        if self._injected_rows.numel() and query.shape[2] <= SELF_INJECTION_QUERIES:
            rows = self._first_conditional(query) + self._injected_rows
            origin = self.source_of[self._injected_rows]
            # Queries and keys are replaced, values kept: that is the source's map over what the target shows.
            # Fused attention can compute it so; the map itself is never stored.
            query = query.index_copy(0, rows, query[origin])
            key = key.index_copy(0, rows, key[origin])
        return scaled_dot_product_attention(query, key, value)

    def _cross(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        collect = self.collect and query.shape[2] <= LOCAL_BLEND_QUERIES
        if self.cross is None and not collect:
            return scaled_dot_product_attention(query, key, value)
        # An edit is linear in the maps, which fused attention never shows: here they are computed in full.
        head, tail = self.sources, self._first_conditional(query)
        source = _maps(query[:head], key[:head])
        target = _maps(query[tail:], key[tail:])
        # A row's share: heads x queries x keys, alike for sources and targets.
        self.row_map_bytes += target[0].numel() * target.element_size()
        if self.cross is not None:
            target = self.cross(source[self.source_of], target)
        if collect:
            both = torch.cat([source[self.source_of], target])
            self._maps.setdefault(query.shape[2], []).append(both.mean(dim=1))
        # The unconditional half keeps its own maps: the method controls the pass that reads the edited
        # caption.
        middle = slice(head, tail)
        plain = scaled_dot_product_attention(query[middle], key[middle], value[middle])
        return torch.cat([source @ value[:head], plain, target @ value[tail:]])

    def _first_conditional(self, rows: Tensor) -> int:
        # Counted from the end: a call may hold any number of sources before its targets.
        return rows.shape[0] - self.source_of.shape[0]

    def word_maps(self) -> tuple[Tensor, Tensor]:
        """Mean maps (T, queries, L) of the finest collected layers: of each target's source, and its own."""
        if not self._maps:
            raise AttentionNotHooked(f"no cross-attention layer of at most {LOCAL_BLEND_QUERIES} positions")
        # Maps of other sizes cannot be averaged with these, and coarser ones would only blur the mask.
        finest = torch.stack(self._maps[max(self._maps)]).mean(dim=0)
        source, target = finest.chunk(2)
        return source, target


def _maps(query: Tensor, key: Tensor) -> Tensor:
    """Explicit attention maps (B, heads, queries, keys)."""
    return torch.softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, dim=-1)
