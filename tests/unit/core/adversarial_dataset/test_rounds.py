"""Rounds of images: they double, stop where enough is kept, and share what is left."""

from __future__ import annotations

from itertools import accumulate

from counterpose_core.adversarial_dataset.rounds import FIRST_ROUND, CaptionProgress, next_round


def rounds(samples: int, kept: int = 0) -> list[int]:
    """The sizes of all rounds of one caption of which so many images are kept."""
    made, sizes = 0, list[int]()
    while True:
        (size,) = next_round([CaptionProgress(made, kept)], samples=samples, most_kept=10, images=10**6)
        if not size:
            return sizes
        sizes.append(size)
        made += size


def test_the_first_round_is_fixed_and_the_others_double_what_was_made() -> None:
    sizes = rounds(1000)
    assert sizes[:3] == [FIRST_ROUND, FIRST_ROUND, 2 * FIRST_ROUND]
    assert list(accumulate(sizes))[-1] == 1000
    assert len(sizes) == 7


def test_a_caption_with_enough_kept_images_gets_no_more() -> None:
    captions = [CaptionProgress(16, 10), CaptionProgress(16, 9)]
    assert next_round(captions, samples=100, most_kept=10, images=10**6) == [0, 16]


def test_what_is_left_is_shared_by_the_captions_that_need_images() -> None:
    captions = [CaptionProgress(16, 0), CaptionProgress(16, 10), CaptionProgress(16, 0)]
    assert next_round(captions, samples=100, most_kept=10, images=7) == [4, 0, 3]
    assert next_round(captions, samples=100, most_kept=10, images=1) == [1, 0, 0]
    assert next_round(captions, samples=100, most_kept=10, images=0) == [0, 0, 0]


def test_no_caption_gets_more_than_its_samples() -> None:
    assert next_round([CaptionProgress(60, 0)], samples=64, most_kept=10, images=100) == [4]
    assert next_round([CaptionProgress(64, 0)], samples=64, most_kept=10, images=100) == [0]
    assert next_round([], samples=64, most_kept=10, images=100) == []
