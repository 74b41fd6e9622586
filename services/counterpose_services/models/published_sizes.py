"""How large the models are that the paper suites name, for those that are not here yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpose_services.service_options import BYTES, Precision


@dataclass(frozen=True)
class PublishedSize:
    """The size of a published model.

    ``parameters`` are those that compute in the service's precision, ``float32_parameters`` those that stay
    in float32, and ``stored_bytes`` the bytes of each in the repository; ``token_values`` is the number of
    keys and values of one token in all layers of its language model.
    """

    parameters: int = 0
    float32_parameters: int = 0
    stored_bytes: int = 4
    token_values: int = 0

    @property
    def download_bytes(self) -> int:
        """The bytes of the weights that engines read."""
        return (self.parameters + self.float32_parameters) * self.stored_bytes

    def weights_bytes(self, dtype: Precision) -> int:
        """Return the memory of the weights in ``dtype``."""
        return self.parameters * BYTES[dtype] + self.float32_parameters * BYTES["float32"]


SIZES: Mapping[str, PublishedSize] = {
    "Salesforce/blip2-opt-2.7b": PublishedSize(3_744_761_856, token_values=2 * 32 * 2560),
    "huggyllama/llama-7b": PublishedSize(6_738_415_616, stored_bytes=2, token_values=2 * 32 * 4096),
    "CompVis/stable-diffusion-v1-4": PublishedSize(859_520_964, 123_060_480 + 83_653_863),
    "stabilityai/stable-diffusion-2": PublishedSize(865_910_724, 340_387_840 + 83_653_863),
    "stabilityai/stable-diffusion-xl-base-1.0": PublishedSize(
        2_567_463_684, 123_060_480 + 694_659_840 + 83_653_863
    ),
    "open_clip:ViT-L-14": PublishedSize(0, 427_616_513),
    "open_clip:ViT-H-14": PublishedSize(0, 986_109_441),
    "sentence-transformers/all-MiniLM-L6-v2": PublishedSize(0, 22_713_216),
    "distilbert/distilbert-base-uncased": PublishedSize(0, 66_985_530),
}
