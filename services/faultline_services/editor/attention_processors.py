"""The seam between a diffusers UNet and the attention controls of the core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from faultline_core.editing.denoiser import AttentionControl, AttentionSite
from faultline_core.errors import AttentionNotHooked, InternalError

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import Attention

LAYER_NAMES = {"attn1": False, "attn2": True}
"""diffusers' names of a transformer block's attention layers, and whether they look at the text."""


class ControlSeat:
    """Holds the control of the UNet call under way; None means plain attention."""

    def __init__(self) -> None:
        self.control: AttentionControl | None = None
        # Invariant: while one call runs, every layer sees that call's control and no other.
        self._one_call = Lock()

    @contextmanager
    def taken_by(self, control: AttentionControl | None) -> Iterator[None]:
        """Seat ``control`` for the length of one UNet call."""
        with self._one_call:
            self.control = control
            try:
                yield
            finally:
                self.control = None


class SiteProcessor:
    """diffusers' attention processor of one layer: projections here, attention by the seated control."""

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
                f"attention layer {self.site.name!r} was given a mask, which no control reads"
            )
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query = _split_heads(attn.to_q(hidden_states), attn.heads)
        key = _split_heads(attn.to_k(context), attn.heads)
        value = _split_heads(attn.to_v(context), attn.heads)
        control = self._seat.control
        # The fused kernel never forms the map; only a controlled call pays for forming it.
        if control is None:
            attended = scaled_dot_product_attention(query, key, value)
        else:
            attended = control.attend(self.site, query, key, value)
        merged = attended.transpose(1, 2).flatten(2)
        # What else diffusers' own processor does (dropout, norm, residual) is off in transformer blocks.
        output: Tensor = attn.to_out[0](merged)
        return output


def _split_heads(projected: Tensor, heads: int) -> Tensor:
    batch, positions, width = projected.shape
    return projected.view(batch, positions, heads, width // heads).transpose(1, 2)


def attention_sites(unet: UNet2DConditionModel) -> list[AttentionSite]:
    """Name every self- and cross-attention layer of the UNet's transformer blocks, found by module name."""
    names = [(name, name.rpartition(".")[2]) for name, _ in unet.named_modules()]
    return [AttentionSite(name, LAYER_NAMES[layer]) for name, layer in names if layer in LAYER_NAMES]


def attach(unet: UNet2DConditionModel) -> ControlSeat:
    """Put our processor on every attention layer of the transformer blocks.

    Raises:
        AttentionNotHooked: there is no such layer, or diffusers did not take one of the processors.
    """
    seat = ControlSeat()
    sites = attention_sites(unet)
    processors = {f"{site.name}.processor": SiteProcessor(site, seat) for site in sites}
    known = unet.attn_processors
    if not sites or not processors.keys() <= known.keys():
        missing = sorted(processors.keys() - known.keys())
        raise AttentionNotHooked(
            f"{len(sites)} attention layers found, no place for a processor at {missing!r}"
        )
    unet.set_attn_processor({**known, **processors})
    # Asked of the model again: diffusers has renamed layers before, and then edits silently did nothing.
    hooked = [name for name, taken in unet.attn_processors.items() if isinstance(taken, SiteProcessor)]
    if len(hooked) != len(sites):
        raise AttentionNotHooked(f"{len(hooked)} of {len(sites)} attention layers took our processor")
    return seat
