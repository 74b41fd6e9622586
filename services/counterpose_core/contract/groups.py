"""Which source images of a run are not independent, and how that is known."""

from __future__ import annotations

from counterpose_core.contract.base import ResponseBody


class GroupCounts(ResponseBody):
    """How many source images share a group, by how the group is known; each image is counted once."""

    named: int = 0
    """Number of images whose group came with the dataset."""
    identical: int = 0
    """Number of other images grouped because one of their class has the same pixels."""
    alike: int = 0
    """Number of other images grouped because CLIP finds one of their class nearly the same."""


class Grouping(GroupCounts):
    """The groups of a run's source images; an image without one stands alone."""

    groups: dict[str, str] = {}
    """Group of each source image that has one, by the image's id."""


class GroupingSummary(GroupCounts):
    """How a run counts source images that are not independent: a group is one unit in every interval."""

    groups: int
    """Number of groups."""

    def __str__(self) -> str:
        found = {"named by the dataset": self.named, "with equal pixels": self.identical, "alike": self.alike}
        told = ", ".join(f"{number} {how}" for how, number in found.items() if number)
        return f"{sum(found.values())} images in {self.groups} groups ({told}); a group counts once"
