"""Attention processors that connect a diffusers UNet to the attention controls of the core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from counterpose_core.editing.denoiser import AttentionControl, AttentionSite
from counterpose_core.errors import AttentionNotHooked, InternalError

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import Attention

LAYER_NAMES = {"attn1": False, "attn2": True}
"""diffusers' names of a transformer block's attention layers, and whether they look at the text."""


class ControlSeat:
    """Holds the control of the current UNet call; None means plain attention."""

    def __init__(self) -> None:
        self.control: AttentionControl | None = None
        # Invariant: during a call every layer sees that call's control and no other.
        self._one_call = Lock()

    @contextmanager
    def taken_by(self, control: AttentionControl | None) -> Iterator[None]:
        """Set ``control`` for the duration of one UNet call."""
        with self._one_call:
            self.control = control
            try:
                yield
            finally:
                self.control = None


class SiteProcessor:
    """diffusers' attention processor of one layer: it projects, and the current control attends."""

    def __init__(self, site: AttentionSite, seat: ControlSeat) -> None:
        self.site = site
        self._seat = seat

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
    ) -> Tensor:
        """Attend over (B, positions, channels) with text (B, L, D) where the layer is a cross-attention."""
        if attention_mask is not None:
            raise InternalError(
                f"attention layer {self.site.name!r} got a mask, which attention control does not support"
            )
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query = _split_heads(attn.to_q(hidden_states), attn.heads)
        key = _split_heads(attn.to_k(context), attn.heads)
        value = _split_heads(attn.to_v(context), attn.heads)
        control = self._seat.control
        # The fused kernel does not store the map; only a controlled call may need it.
        if control is None:
            attended = scaled_dot_product_attention(query, key, value)
        else:
            attended = control.attend(self.site, query, key, value)
        merged = attended.transpose(1, 2).flatten(2)
        # The other operations of diffusers' own processor (dropout, norm, residual) are off in transformer
        # blocks.
        output: Tensor = attn.to_out[0](merged)
        return output


def _split_heads(projected: Tensor, heads: int) -> Tensor:
    batch, positions, width = projected.shape
    return projected.view(batch, positions, heads, width // heads).transpose(1, 2)


def attention_sites(unet: UNet2DConditionModel) -> list[AttentionSite]:
    """Return every self- and cross-attention layer of the UNet's transformer blocks, found by module name."""
    names = [(name, name.rpartition(".")[2]) for name, _ in unet.named_modules()]
    return [AttentionSite(name, LAYER_NAMES[layer]) for name, layer in names if layer in LAYER_NAMES]


def attach(unet: UNet2DConditionModel) -> ControlSeat:
    """Put our processor on every attention layer of the transformer blocks.

    Raises:
        AttentionNotHooked: self- or cross-attention is missing, or a layer is not what its name says or is of
            another kind than those of transformer blocks, or diffusers did not take one of the processors.
    """
    seat = ControlSeat()
    sites = attention_sites(unet)
    processors = {f"{site.name}.processor": SiteProcessor(site, seat) for site in sites}
    known = unet.attn_processors
    _refuse_unexpected(unet, sites, [name.removesuffix(".processor") for name in known])
    unet.set_attn_processor({**known, **processors})
    # Read back from the model: diffusers has renamed layers before, and edits then silently did nothing.
    hooked = [name for name, taken in unet.attn_processors.items() if isinstance(taken, SiteProcessor)]
    if len(hooked) != len(sites):
        raise AttentionNotHooked(
            f"only {len(hooked)} of {len(sites)} attention layers accepted the attention processor"
        )
    return seat


def _refuse_unexpected(
    unet: UNet2DConditionModel, sites: Sequence[AttentionSite], places: Sequence[str]
) -> None:
    """Refuse a model in which an edit would miss attention layers or control layers of another kind."""
    cross = sum(site.is_cross for site in sites)
    found = f"{len(sites) - cross} self- and {cross} cross-attention layers in transformer blocks"
    # Layers of other blocks would not be controlled, and the edit would lose the source's layout.
    others = sorted(set(places) - {site.name for site in sites})
    closed = sorted({site.name for site in sites} - set(places))
    modules = dict(unet.named_modules())
    # Only some diffusers releases mark cross-attention layers; without the mark the name decides.
    misnamed = [
        site.name
        for site in sites
        if getattr(modules[site.name], "is_cross_attention", site.is_cross) is not site.is_cross
    ]
    for names, fault in (
        (others, "others that no edit controls"),
        (closed, "no place for a processor"),
        (misnamed, "which are not what their names say"),
    ):
        if names:
            raise AttentionNotHooked(f"{found}, {len(names)} {fault}: {', '.join(map(repr, names[:4]))}")
    if cross == 0 or cross == len(sites):
        raise AttentionNotHooked(f"{found}; an edit needs both")
