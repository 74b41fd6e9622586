"""The oracle's own network: a residual convolutional trunk with one head an attribute."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from counterpose_miniature.world import VALUES

_WIDTHS = (32, 64, 96, 144)


class _Block(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.activation = nn.SiLU()

    def forward(self, values: Tensor) -> Tensor:
        """Return values of the same shape."""
        result: Tensor = self.activation(values + self.path(values))
        return result


class AttributeNetwork(nn.Module):
    """Reads images, float [N, 3, 64, 64] in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in _WIDTHS:
            layers += [
                nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.SiLU(),
            ]
            layers.append(_Block(width))
            channels = width
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.ModuleDict(
            {name: nn.Linear(2 * channels, len(values)) for name, values in VALUES.items()}
        )

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Return the logits of each attribute, [N, values]."""
        maps = self.trunk(2 * images - 1)
        features = torch.cat([maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3))], dim=1)
        return {name: head(features) for name, head in self.heads.items()}
