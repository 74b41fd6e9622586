"""How large a benchmark is: full, about a minute, or only large enough to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Size = Literal["full", "quick", "tiny"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Images, edits of each and steps, by what they are for.

    Evaluations are counted at ``steps`` and ``few_steps``; the clock runs at ``timed_steps``, as ratios do
    not depend on how many there are.
    """

    images: int
    edits: int
    steps: int
    exact_steps: int
    fast_images: int
    fast_edits: int
    few_steps: int
    judged: int
    timed_images: int
    timed_steps: int
    prompts: int
    prompt_steps: int
    repetitions: int


SIZES: dict[Size, Sizes] = {
    "full": Sizes(
        images=4, edits=3, steps=50, exact_steps=10, fast_images=2, fast_edits=5, few_steps=20, judged=6,
        timed_images=4, timed_steps=10, prompts=16, prompt_steps=10, repetitions=3,
    ),
    "quick": Sizes(
        images=2, edits=3, steps=5, exact_steps=10, fast_images=1, fast_edits=5, few_steps=2, judged=2,
        timed_images=1, timed_steps=3, prompts=8, prompt_steps=5, repetitions=1,
    ),
    "tiny": Sizes(
        images=1, edits=1, steps=2, exact_steps=2, fast_images=1, fast_edits=1, few_steps=2, judged=1,
        timed_images=1, timed_steps=1, prompts=2, prompt_steps=1, repetitions=1,
    ),
}  # fmt: skip
