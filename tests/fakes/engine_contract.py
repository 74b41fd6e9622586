"""What every engine keeps, real or fake: the same clauses are put to both.

A clause is called with a bench of engines and one of ``CASES``, which names a verb and items for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import captioner, classifiers, editor, perturber, scorer, tokens
from counterpose_core.contract.base import Outcome
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_services.serving.engine_protocols import Captioner, Classifiers, Editor, Perturber, Scorer
from counterpose_services.settings import ServiceName

Fields = dict[str, Any]
SIDE = 16
CLASSES = ["boat", "tram", "sled"]
CAPTIONS = ("a photo of a red bus", "a photo of a blue tram", "the red bus in the snow")
EDITED = ("a photo of a blue bus", "a photo of a red tram", "the red bus on grass")
TEXTS = ("a red boat on the sea", "a blue tram at night", "the sled in snow with dogs")
MISSING = "e" * 64
"""The reference of an image that is nowhere."""
ENDLESS = "a red boat on the sea " * 20
SWEEP = [0.75, 0.25]
PRESET = {"steps": 2, "guidance": 2.0, "self_replace": SWEEP}
LEARNED = 3
"""Steps of textual inversion."""
FLOAT_TOLERANCE = 1e-4
LEVEL_TOLERANCE = 1


@dataclass(frozen=True)
class Bench:
    """The five engines over one store, and the name of a classifier they know."""

    captioner: Captioner
    perturber: Perturber
    editor: Editor
    scorer: Scorer
    classifiers: Classifiers
    store: BlobStore
    classifier: str

    def image(self, seed: int) -> str:
        """Put an image of large patches into the store."""
        patches = np.random.default_rng(seed).integers(0, 256, (2, 2, 3), dtype=np.uint8)
        return self.store.put(encode_raw(patches.repeat(SIDE // 2, axis=0).repeat(SIDE // 2, axis=1)))

    def pixels(self, ref: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """Read an image that an engine made."""
        return decode_image(self.store.get(ref))


@dataclass(frozen=True)
class Case:
    """One verb: three good items and a bad one, how a request holds them, what a value must look like."""

    service: ServiceName
    verb: str
    good: Callable[[Bench], Sequence[Any]]
    bad: Callable[[Bench], Any]
    request: Callable[[Bench, list[Any]], Any]
    check: Callable[[Bench, Any, Any], None]
    seeded: bool = False

    def __str__(self) -> str:
        return f"{self.service}-{self.verb}"


Clause = Callable[[Bench, Case], None]


def _items(request: type[Any], **fixed: object) -> Callable[[Bench, list[Any]], Any]:
    return lambda _, items: request.model_validate({"items": items} | fixed)


def _answer(bench: Bench, case: Case, items: Sequence[Any]) -> Any:
    engine = getattr(bench, case.service)
    polled: Mapping[str, Any] = {"cancelled": lambda: False} if case.service == "editor" else {}
    return getattr(engine, case.verb)(case.request(bench, list(items)), **polled)


def _outcomes(bench: Bench, case: Case, items: Sequence[Any]) -> list[Outcome[Any]]:
    found: list[Outcome[Any]] = _answer(bench, case, items).outcomes
    return found


def _same(bench: Bench, one: Any, two: Any) -> bool:
    """Compare dumped values as the design promises them equal: floats to 1e-4, pixels to one level."""
    if isinstance(one, dict):
        told = one.keys() - {"cost"}
        return one.keys() == two.keys() and all(
            _same_image(bench, one[key], two[key]) if key == "image" else _same(bench, one[key], two[key])
            for key in told
        )
    if isinstance(one, list):
        return len(one) == len(two) and all(_same(bench, a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, float):
        return bool(two == pytest.approx(one, abs=FLOAT_TOLERANCE, rel=FLOAT_TOLERANCE))
    return bool(one == two)


def _same_image(bench: Bench, one: str, two: str) -> bool:
    apart = bench.pixels(one).astype(int) - bench.pixels(two).astype(int)
    return int(np.abs(apart).max()) <= LEVEL_TOLERANCE


def _all_same(bench: Bench, ones: Sequence[Outcome[Any]], twos: Sequence[Outcome[Any]]) -> bool:
    dumped = [[outcome.model_dump() for outcome in outcomes] for outcomes in (ones, twos)]
    return _same(bench, dumped[0], dumped[1])


def every_item_has_one_value_of_the_right_shape(bench: Bench, case: Case) -> None:
    items = case.good(bench)
    outcomes = _outcomes(bench, case, items)
    assert len(outcomes) == len(items)
    for item, outcome in zip(items, outcomes, strict=True):
        case.check(bench, item, outcome.unwrap())


def answers_come_in_the_order_of_their_items(bench: Bench, case: Case) -> None:
    items = list(case.good(bench))
    forward, backward = _outcomes(bench, case, items), _outcomes(bench, case, items[::-1])
    assert _all_same(bench, forward, backward[::-1])


def a_bad_item_fails_alone(bench: Bench, case: Case) -> None:
    first, *rest = case.good(bench)
    outcomes = _outcomes(bench, case, [first, case.bad(bench), *rest])
    assert outcomes[1].problem is not None
    assert 400 <= outcomes[1].problem.status < 500
    assert _all_same(bench, [outcomes[0], *outcomes[2:]], _outcomes(bench, case, [first, *rest]))


def a_call_of_bad_items_alone_is_answered(bench: Bench, case: Case) -> None:
    outcomes = _outcomes(bench, case, [case.bad(bench)])
    assert [outcome.value for outcome in outcomes] == [None]


def equal_requests_get_equal_answers(bench: Bench, case: Case) -> None:
    items = case.good(bench)
    assert _all_same(bench, _outcomes(bench, case, items), _outcomes(bench, case, items))


def what_shares_the_call_does_not_matter(bench: Bench, case: Case) -> None:
    items = case.good(bench)
    alone = [_outcomes(bench, case, [item])[0] for item in items]
    assert _all_same(bench, _outcomes(bench, case, items), alone)


def another_seed_draws_something_else(bench: Bench, case: Case) -> None:
    if not case.seeded:
        return
    item = case.good(bench)[0]
    drawn = _outcomes(bench, case, [item | {"seed": seed} for seed in range(6)])
    assert not all(_all_same(bench, drawn[:1], [other]) for other in drawn[1:])


def a_value_asked_for_alone_is_as_in_the_whole_sweep(bench: Bench, case: Case) -> None:
    if case.verb != "edit":
        return
    request = case.request(bench, list(case.good(bench)))
    whole = [outcome.unwrap().variants for outcome in bench.editor.edit(request, cancelled=bool).outcomes]
    # The largest first, as a sweep is run that ends at the first that passes.
    for place, value in enumerate(SWEEP):
        asked = request.model_copy(update={"strength": (value,)})
        for outcome, variants in zip(bench.editor.edit(asked, cancelled=bool).outcomes, whole, strict=True):
            [alone] = outcome.unwrap().variants
            assert alone.strength == value
            assert _same_image(bench, alone.image, variants[place].image)


def the_answer_names_the_weights(bench: Bench, case: Case) -> None:
    model = _answer(bench, case, case.good(bench)).model
    assert model.id
    assert len(model.revision) == 64


CONTRACT: tuple[Clause, ...] = (
    every_item_has_one_value_of_the_right_shape,
    answers_come_in_the_order_of_their_items,
    a_bad_item_fails_alone,
    a_call_of_bad_items_alone_is_answered,
    equal_requests_get_equal_answers,
    what_shares_the_call_does_not_matter,
    another_seed_draws_something_else,
    a_value_asked_for_alone_is_as_in_the_whole_sweep,
    the_answer_names_the_weights,
)


def _images(bench: Bench) -> list[str]:
    return [bench.image(seed) for seed in range(3)]


def _with_images(**columns: Sequence[object]) -> Callable[[Bench], list[Fields]]:
    """Return three items: an image each, and a row of the columns."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return lambda bench: [{"image": ref} | row for ref, row in zip(_images(bench), rows, strict=True)]


def _score_items(bench: Bench) -> list[Fields]:
    images, removed, added = _images(bench), ("red", "", "sled"), ("blue", "night", "")
    return [
        {
            "original": images[row],
            "edited": images[row - 1],
            "caption": TEXTS[row],
            "edited_caption": TEXTS[row - 1],
            "removed": removed[row],
            "added": added[row],
        }
        for row in range(3)
    ]


def _check_caption(_: Bench, item: Fields, value: captioner.Caption) -> None:
    assert value.text.strip()
    assert value.log_likelihood <= 0
    assert value.tokens > 0


def _check_likelihood(_: Bench, item: Fields, value: captioner.LogLikelihood) -> None:
    assert np.isfinite(value.total)
    assert value.total < 0
    assert value.tokens > 0


def _check_edits(_: Bench, item: Fields, value: perturber.Perturbations) -> None:
    texts = [edit.edited_caption for edit in value.edits]
    assert len(texts) == len(set(texts)) <= item["n"]
    assert texts or value.dropped
    assert item["caption"] not in texts


def _check_text_likelihood(_: Bench, text: str, value: perturber.TextLikelihood) -> None:
    assert np.isfinite(value.nats)
    assert value.nats < 0
    assert value.tokens == len(text.split())


def _check_reconstruction(bench: Bench, item: Fields, value: editor.Reconstruction) -> None:
    assert bench.pixels(value.image).ndim == 3
    assert value.psnr_db > 0


def _check_variants(bench: Bench, item: Fields, value: editor.EditedImage) -> None:
    assert [variant.strength for variant in value.variants] == SWEEP
    assert all(bench.pixels(variant.image).shape[2] == 3 for variant in value.variants)


def _check_generated(bench: Bench, item: Fields, value: editor.GeneratedImage) -> None:
    height, width, channels = bench.pixels(value.image).shape
    assert (height, channels) == (width, 3)


def _check_learned(bench: Bench, item: Fields, value: tokens.LearnedToken) -> None:
    assert (value.class_name, value.steps, len(value.losses)) == (item["class_name"], LEARNED, LEARNED)
    assert (value.images, value.dropped) == (len(item["images"]), [])
    assert value.checkpoint is not None
    assert value.bundle is not None
    assert bench.store.exists(value.checkpoint)
    assert bench.store.exists(value.bundle)


def _check_scores(_: Bench, item: Fields, value: scorer.EditScores) -> None:
    cosines = [number for number in value.model_dump().values() if number is not None]
    assert all(-1 - FLOAT_TOLERANCE <= number <= 1 + FLOAT_TOLERANCE for number in cosines)
    assert (value.words_added is None) == (not item["added"])
    assert (value.words_removed is None) == (not item["removed"])


def _check_unit(_: Bench, item: str, value: scorer.Embedding) -> None:
    assert np.linalg.norm(value.vector) == pytest.approx(1.0, abs=FLOAT_TOLERANCE)


def _check_filled(_: Bench, item: Fields, value: scorer.FilledMask) -> None:
    assert 0 < len(value.words) == len(set(value.words)) <= item["n"]
    assert item["text"].split()[item["position"]] not in value.words
    assert len(value.probabilities) == len(value.words)
    assert all(0 < odds <= 1 for odds in value.probabilities)


def _check_prediction(_: Bench, item: str, value: classifiers.Prediction) -> None:
    odds = value.probabilities
    assert len(odds) == len(CLASSES)
    assert all(0 <= number <= 1 for number in odds)
    assert sum(odds) <= 1 + FLOAT_TOLERANCE
    assert [odds[index] for index in value.top] == sorted(odds, reverse=True)[:5]


def _ask_classes(bench: Bench, images: list[str]) -> classifiers.ClassifyRequest:
    return classifiers.ClassifyRequest(classifier=bench.classifier, images=images, classes=CLASSES)


def _no_image(**fields: object) -> Callable[[Bench], Fields]:
    return lambda _: {"image": MISSING} | fields


CASES = (
    Case(
        "captioner", "caption", _with_images(label=("boat", "tram", "sled")), _no_image(label="boat"),
        _items(captioner.CaptionRequest), _check_caption,
    ),
    Case(
        "captioner", "log_likelihood", _with_images(text=TEXTS), _no_image(text="a boat"),
        _items(captioner.LogLikelihoodRequest), _check_likelihood,
    ),
    Case(
        "perturber", "perturb",
        lambda _: [
            {"caption": text, "perturbation_type": "adjective", "n": 3, "seed": row}
            for row, text in enumerate(TEXTS)
        ],
        lambda _: {"caption": ENDLESS, "perturbation_type": "adjective", "n": 3, "seed": 0},
        _items(perturber.PerturbRequest), _check_edits, seeded=True,
    ),
    Case(
        "perturber", "likelihoods", lambda _: TEXTS, lambda _: ENDLESS,
        lambda _, texts: perturber.LikelihoodsRequest(texts=texts), _check_text_likelihood,
    ),
    Case(
        "editor", "reconstruct", _with_images(caption=CAPTIONS), _no_image(caption=CAPTIONS[0]),
        _items(editor.ReconstructRequest, preset=PRESET), _check_reconstruction,
    ),
    Case(
        "editor", "edit", _with_images(caption=CAPTIONS, edited_caption=EDITED),
        lambda bench: {"image": bench.image(0), "caption": CAPTIONS[0], "edited_caption": ENDLESS},
        _items(editor.EditRequest, preset=PRESET), _check_variants,
    ),
    Case(
        "editor", "generate", lambda _: [{"prompt": text, "seed": row} for row, text in enumerate(CAPTIONS)],
        lambda _: {"prompt": ENDLESS, "seed": 0},
        _items(editor.GenerateRequest, steps=2, guidance=2.0), _check_generated, seeded=True,
    ),
    Case(
        "editor", "learn_tokens",
        lambda bench: [
            {"class_name": name, "initialiser": "bus", "images": _images(bench)[row:]}
            for row, name in enumerate(CLASSES)
        ],
        lambda _: {"class_name": "wagon", "initialiser": "bus", "images": [MISSING]},
        _items(tokens.LearnTokensRequest, preset={"steps": LEARNED}, seed=5), _check_learned,
    ),
    Case(
        "scorer", "score", _score_items, lambda bench: _score_items(bench)[0] | {"edited": MISSING},
        _items(scorer.ScoreRequest), _check_scores,
    ),
    Case(
        "scorer", "embed_images", _images, lambda _: MISSING,
        lambda _, images: scorer.EmbedImagesRequest(images=images), _check_unit,
    ),
    Case(
        "scorer", "embed_texts", lambda _: TEXTS, lambda _: ENDLESS,
        lambda _, texts: scorer.EmbedTextsRequest(texts=texts), _check_unit,
    ),
    Case(
        "scorer", "embed_texts", lambda _: TEXTS, lambda _: ENDLESS,
        lambda _, texts: scorer.EmbedTextsRequest(texts=texts, encoder="sentence"), _check_unit,
    ),
    Case(
        "scorer", "fill_mask",
        lambda _: [{"text": text, "position": 1, "n": 2, "seed": row} for row, text in enumerate(TEXTS)],
        lambda _: {"text": TEXTS[0], "position": 99, "n": 2, "seed": 0},
        _items(scorer.FillMaskRequest), _check_filled, seeded=True,
    ),
    Case("classifiers", "classify", _images, lambda _: MISSING, _ask_classes, _check_prediction),
)  # fmt: skip


def each_clause_and_case(
    test: Callable[[Clause, Case, Bench], None],
) -> Callable[[Clause, Case, Bench], None]:
    """Run a test that takes a bench once for each clause and case."""
    return each_clause_and_case_of(*get_args(ServiceName))(test)


def each_clause_and_case_of(
    *services: ServiceName,
) -> Callable[[Callable[[Clause, Case, Bench], None]], Callable[[Clause, Case, Bench], None]]:
    """Run a test that takes a bench once for each clause and each case of these services."""
    return partial(_each, [case for case in CASES if case.service in services])


def _each(
    cases: Sequence[Case], test: Callable[[Clause, Case, Bench], None]
) -> Callable[[Clause, Case, Bench], None]:
    for_cases = pytest.mark.parametrize("case", cases, ids=str)
    for_clauses = pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
    return for_cases(for_clauses(test))
