"""Prompt-to-prompt: edits take over attention maps of their source (Hertz et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from counterpose_core.editing.denoiser import AttentionSite
from counterpose_core.editing.prompt_alignment import Alignment, token_origins
from counterpose_core.errors import AttentionNotHooked
from counterpose_core.types import TokenAlignment, WeightedWords

SELF_INJECTION_QUERIES = 32**2
"""Self-attention is injected in layers with at most this many positions, as published."""
LOCAL_BLEND_QUERIES = 16**2
"""Local blend uses the finest cross-attention maps of at most this many positions, as published."""


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
        """Return the edits ``start`` to ``stop`` of a batch."""
        return CrossEdit(self.mapper[start:stop], self.kept[start:stop], self.gain[start:stop])

    def to(self, like: Tensor) -> CrossEdit:
        """Return the edit in the type and on the device of another tensor."""
        return CrossEdit(self.mapper.to(like), self.kept.to(like), self.gain.to(like))

    @classmethod
    def stack(cls, edits: Sequence[CrossEdit]) -> CrossEdit:
        """Concatenate edits into one batch."""
        return cls(
            torch.cat([edit.mapper for edit in edits]),
            torch.cat([edit.kept for edit in edits]),
            torch.cat([edit.gain for edit in edits]),
        )


def _follow_tails(mapper: Tensor, alignment: Alignment) -> None:
    """Map the end mark and the padding in order; the source's last token fills the rest.

    These tokens carry the meaning of the whole sentence, so they are carried over like words.
    """
    last = mapper.shape[0] - 1
    for offset, target in enumerate(range(alignment.target.tail, mapper.shape[1])):
        mapper[min(alignment.source.tail + offset, last), target] = 1.0


def _stay_in_place(mapper: Tensor, alignment: Alignment) -> None:
    """Map the end mark to the end mark, and each padding token to the token at its own place."""
    mapper[alignment.source.tail, alignment.target.tail] = 1.0
    padding = list(range(alignment.target.tail + 1, mapper.shape[1]))
    mapper[padding, padding] = 1.0


def _carry(mapper: Tensor, source: Sequence[int], target: Sequence[int]) -> None:
    """Map a word's attention token by token, or evenly if the other word has another number of tokens."""
    if len(source) == len(target):
        mapper[list(source), list(target)] = 1.0
        return
    # As in the released code: two tokens that replace one get half of its map each; one that replaces two
    # gets the sum of theirs.
    for i in source:
        mapper[i, list(target)] = 1.0 / len(target)


def _cross_edit(
    alignment: Alignment, length: int, *, carry_changed: bool, tails: Callable[[Tensor, Alignment], None]
) -> CrossEdit:
    # float64 until it is applied to a model's maps, so that a third of a word is rounded only once.
    mapper = torch.zeros(length, length, dtype=torch.float64)
    kept = torch.ones(length, dtype=torch.float64)
    mapper[0, 0] = 1.0
    tails(mapper, alignment)
    for pair in alignment.pairs:
        if pair.same or (carry_changed and pair.source):
            _carry(mapper, pair.source, pair.target)
        else:
            kept[list(pair.target)] = 0.0
    return CrossEdit(mapper[None], kept[None], torch.ones(1, length, dtype=torch.float64))


def replace_words(alignment: Alignment, length: int, tokens: TokenAlignment = "words") -> CrossEdit:
    """Replace: a new word takes the maps of the word that it replaces (section 3.2, word swap).

    ``released`` leaves the padding in place. Where a word stands for one of another number of tokens the
    released `get_replacement_mapper` also gives every later word the map of a neighbour; that is not done.
    """
    tails = _stay_in_place if tokens == "released" else _follow_tails
    return _cross_edit(alignment, length, carry_changed=True, tails=tails)


def refine(alignment: Alignment, length: int, tokens: TokenAlignment = "words") -> CrossEdit:
    """Refine: words in both captions keep the source's maps, new words use their own (section 3.2).

    ``released`` aligns single tokens instead of words and leaves the padding in place, so that after removed
    words it stands for the source's last words (`get_refinement_mapper` of the released code).
    """
    if tokens == "released":
        return _refine_tokens(alignment, length)
    return _cross_edit(alignment, length, carry_changed=False, tails=_follow_tails)


def _refine_tokens(alignment: Alignment, length: int) -> CrossEdit:
    mapper = torch.eye(length, dtype=torch.float64)
    kept = torch.ones(length, dtype=torch.float64)
    for place, origin in enumerate(token_origins(alignment.source.ids, alignment.target.ids)):
        mapper[:, place] = 0.0
        if origin is None:
            kept[place] = 0.0
        else:
            mapper[origin, place] = 1.0
    return CrossEdit(mapper[None], kept[None], torch.ones(1, length, dtype=torch.float64))


def reweight(edit: CrossEdit, positions: Sequence[int], weight: float) -> CrossEdit:
    """Re-weight: multiply the maps of the tokens at ``positions`` on top of another edit (section 3.2)."""
    gain = edit.gain.clone()
    gain[:, list(positions)] = weight
    return replace(edit, gain=gain)


def cross_edit(
    alignment: Alignment,
    length: int,
    *,
    word_weight: float,
    tokens: TokenAlignment = "words",
    weighted: WeightedWords = "added",
) -> CrossEdit:
    """Return the re-weighted edit of a caption pair: replace if words replace words, otherwise refine.

    If every changed word replaces another, it takes over that word's map, which keeps position and size.
    LANCE's released code refines in this case too.

    Args:
        alignment: the alignment of the two captions' tokens.
        length: the number of tokens that the text encoder reads.
        word_weight: the factor on the maps of added words.
        tokens: how tokens are aligned, as in `replace_words` and `refine`.
        weighted: ``added`` weights the added words alone, ``released`` every occurrence of the same words.
    """
    change = replace_words if alignment.is_replacement else refine
    positions = alignment.repeated if weighted == "released" else alignment.added
    return reweight(change(alignment, length, tokens), positions, word_weight)


@dataclass
class PromptToPrompt:
    """Attention of one denoiser call whose rows are: sources | targets unconditional | targets conditional.

    The unconditional rows are never changed. ``source_of`` (T,) is the source row of each target. ``cross``
    edits the cross-attention maps, and is None after the last step with edited maps. ``injected`` (T,) marks
    the targets that take the source's self-attention. With ``collect``, maps are kept for local blend.
    ``row_map_bytes`` is the size of the maps computed for each source and each target.
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
        # Computed where the flags are, usually the host, so that nothing waits for the device.
        self._injected_rows = self.injected.nonzero().flatten().to(self.source_of.device)

    @property
    def map_bytes(self) -> int:
        """Bytes of all attention maps computed so far outside of a fused kernel."""
        return self.row_map_bytes * (self.sources + self.source_of.shape[0])

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the attended values of one layer, with the source's attention carried over to the targets.

        Cross-attention maps are edited by ``cross``; self-attention of the ``injected`` targets takes the
        queries and keys of their sources in layers of at most `SELF_INJECTION_QUERIES` positions.

        Args:
            site: the attention layer.
            query: queries (rows, heads, queries, width).
            key: keys (rows, heads, keys, width).
            value: values (rows, heads, keys, width).
        """
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
            # Replacing queries and keys but not values applies the source's map to the target's values. Fused
            # attention computes this without storing the map.
            query = query.index_copy(0, rows, query[origin])
            key = key.index_copy(0, rows, key[origin])
        return scaled_dot_product_attention(query, key, value)

    def _cross(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        collect = self.collect and query.shape[2] <= LOCAL_BLEND_QUERIES
        if self.cross is None and not collect:
            return scaled_dot_product_attention(query, key, value)
        # An edit needs the maps, which fused attention does not expose, so they are computed in full here.
        head, tail = self.sources, self._first_conditional(query)
        source = _maps(query[:head], key[:head])
        target = _maps(query[tail:], key[tail:])
        # Per row: heads x queries x keys, equal for sources and targets.
        self.row_map_bytes += target[0].numel() * target.element_size()
        if self.cross is not None:
            target = self.cross(source[self.source_of], target)
        if collect:
            both = torch.cat([source[self.source_of], target])
            self._maps.setdefault(query.shape[2], []).append(both.mean(dim=1))
        # The unconditional half keeps its own maps: only the half with the edited caption is edited.
        middle = slice(head, tail)
        plain = scaled_dot_product_attention(query[middle], key[middle], value[middle])
        return torch.cat([source @ value[:head], plain, target @ value[tail:]])

    def _first_conditional(self, rows: Tensor) -> int:
        # Counted from the end: a call may hold any number of sources before its targets.
        return rows.shape[0] - self.source_of.shape[0]

    def word_maps(self) -> tuple[Tensor, Tensor]:
        """Return mean maps (T, queries, L) of the finest collected layers, of sources and of targets.

        Raises:
            AttentionNotHooked: no cross-attention layer is small enough for local blend.
        """
        if not self._maps:
            raise AttentionNotHooked(
                f"local blend found no cross-attention layer of at most {LOCAL_BLEND_QUERIES} positions; "
                "set local_blend to false for this model"
            )
        # Maps of other sizes cannot be averaged with these, and coarser maps would blur the mask.
        finest = torch.stack(self._maps[max(self._maps)]).mean(dim=0)
        source, target = finest.chunk(2)
        return source, target


def _maps(query: Tensor, key: Tensor) -> Tensor:
    """Explicit attention maps (B, heads, queries, keys)."""
    return torch.softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, dim=-1)
