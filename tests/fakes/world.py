"""The world that the fake ports share: which image shows what, and a small dataset of such images."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.stress_tests import GateThresholds, TextThresholds
from counterpose_core.contract.tokens import TextualInversionPreset
from counterpose_core.suite import EncoderSuite, JudgeSuite, Suite, load_suite
from fakes.store import FakeStore, image

CLASSES = ("plate", "sled", "boat", "kite")

CAPTION = "a photo of a red {label} on the grass next to a dog"


def fake_suite(*, redraw: str | None = None) -> Suite:
    """The miniature suite with the fakes' thresholds and presets: tuning the real ones changes no test.

    Images are drawn again only with ``redraw``, so that small classes have one stage.
    """
    suite = load_suite("miniature")
    thresholds: dict[str, object] = {
        "gate": GateThresholds(),
        "text": TextThresholds(word_similarity=0.9),
        "shift_thresholds": {},
    }
    quick = PromptToPromptPreset(steps=20, self_replace=(0.4, 0.6, 0.8))
    own = {"quick": quick, "preview": quick.model_copy(update={"preview": True})}
    return suite.model_copy(
        update={
            "known_images": None,
            "judge": JudgeSuite(server="https://judges.test/v1", model="vlm"),
            "encoder": EncoderSuite(model="net"),
            "scorer_part": suite.scorer.model_copy(update=thresholds),
            "editor_part": suite.editor.model_copy(
                update={
                    "presets": suite.editor.presets | own,
                    "redraw": redraw,
                    "token_link_steps": 50,
                    "token_prompts": "captions",
                    "textual_inversion": TextualInversionPreset(
                        steps=600, interpolation_weights=(0.0, 0.5, 1.0)
                    ),
                }
            ),
        }
    )


@dataclass(frozen=True)
class Shown:
    """An image's truth: its label, the caption it follows, and how it was made."""

    label: str
    caption: str
    strength: float | None = None

    def __repr__(self) -> str:
        """Return what an image is drawn by: in other words, every test would see other images."""
        return f"Shown(label={self.label!r}, caption={self.caption!r}, self_replace={self.strength!r})"


@dataclass
class FakeWorld:
    """Every image of a test, by its digest."""

    store: FakeStore = field(default_factory=FakeStore)
    shown: dict[str, Shown] = field(default_factory=dict)

    def add(self, shown: Shown, *names: object) -> str:
        """Draw an image of ``shown`` and remember what it shows."""
        ref = self.store.put(image(shown, *names))
        self.shown[ref] = shown
        return ref

    def source(self, label: str, number: int, *, caption: str | None = None) -> Source:
        """The numbered image of a class; ``caption`` is the user's own."""
        ref = self.add(Shown(label, CAPTION.format(label=label)), number)
        return Source(
            id=f"{label}-{number}", image=ref, label=label, filename=f"{label}/{number}.png",
            caption=caption, width=8, height=8,
        )  # fmt: skip

    def sources(self, per_class: int, classes: tuple[str, ...] = CLASSES) -> list[Source]:
        """The given number of images of each class."""
        return [self.source(label, number) for label in classes for number in range(per_class)]


def fake_dataset(n_sources: int, classes: tuple[str, ...] = CLASSES) -> Dataset:
    """The dataset that such sources belong to."""
    return Dataset(
        name="demo", classes=list(classes), n_sources=n_sources, digest="d" * 64,
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )  # fmt: skip
