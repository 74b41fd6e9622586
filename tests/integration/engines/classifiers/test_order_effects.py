"""The effect of the labels' order on a model that chats, planted in a scripted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest, rotations
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.openai_api.requirements import require_server
from counterpose_services.settings import ServiceSettings
from fakes.chat_server import COLOURS, ScriptedChat, chat_classifiers, chat_suite
from fakes.world import fake_suite


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def grey(store: BlobStore, number: int) -> str:
    """An image whose colour is hard to tell for the one half, and plain for the other."""
    shade = np.array(COLOURS["green"], float) if number % 2 else np.full(3, 100.0)
    return store.put(encode_raw(np.full((8, 8 + number, 3), shade.astype(np.uint8), np.uint8)))


def measured(store: BlobStore, server: Any, **changes: Any) -> OrderEffect:
    chat = chat_classifiers(server, store, colour=chat_suite(**changes.pop("suite", {})))
    engine = ClassifiersEngine.load(ClassifiersSuite(), Path("nowhere"), store, ClassifierOptions(), chat)
    images = [grey(store, number) for number in range(20)]
    asked = {"classifier": "chat:colour", "images": images, "classes": list(COLOURS), "seed": 3}
    return engine.order_effect(OrderEffectRequest.model_validate(asked | changes))


def test_a_planted_preference_for_the_first_label_is_measured_with_its_interval(store: BlobStore) -> None:
    server = ScriptedChat(first=3.0)
    found = measured(store, server)
    # Ten grey images are taken for whatever is listed first, ten green ones never.
    assert (found.orders, found.changes.estimate, found.changes.n) == (3, 0.5, 20)
    assert found.changes.low is not None
    assert found.changes.high is not None
    assert 0.25 < found.changes.low < 0.5 < found.changes.high < 0.75
    assert found.first is not None
    assert found.first.low is not None
    assert found.first.estimate == pytest.approx((10 * 1 + 10 / 3) / 20)
    assert found.first.low > found.even == pytest.approx(1 / 3)
    assert len(server.asked) == 60
    told = str(found)
    assert "changes with the order of the labels on 50 % of 20 images (95 % interval 27 to 73 %)" in told
    assert "it prefers the label listed first: 67 % of 20 images' answers, not 33 %" in told
    assert "listed last" not in told


def test_without_a_preference_no_place_of_the_list_is_preferred(store: BlobStore) -> None:
    found = measured(store, ScriptedChat())
    assert (found.changes.estimate, found.changes.low) == (0.0, 0.0)
    assert found.changes.high == pytest.approx(0.168, abs=1e-3)
    for share in (found.first, found.last):
        assert share is not None
        assert share.low is not None
        assert share.high is not None
        assert share.low < found.even < share.high
    assert "prefers" not in str(found)


def test_an_image_without_a_label_in_some_order_is_left_out_and_counted(store: BlobStore) -> None:
    server = ScriptedChat(first=3.0, words=lambda pixels: "both" if pixels.shape[1] in (8, 9) else None)
    found = measured(store, server)
    assert (found.changes.n, found.unanswered) == (18, 2)
    assert "2 without a label in some order are left out" in str(found)
    # Answers with a label are kept, for this model too.
    none = measured(store, ScriptedChat(words=lambda _: "both"), suite={"model": "silent"})
    assert (none.changes.estimate, none.changes.n, none.unanswered) == (None, 0, 20)


def test_of_many_labels_eight_orders_are_asked_and_no_place_is_named(store: BlobStore) -> None:
    classes = [f"class {number}" for number in range(300)]
    server = ScriptedChat(sees=lambda _, labels: [0.0] * len(labels), first=2.0)
    found = measured(store, server, classes=classes)
    assert (found.orders, found.changes.estimate, found.first, found.last) == (8, 1.0, None, None)
    assert len(server.asked) == 160
    assert rotations(300) == [0, 37, 75, 112, 150, 187, 225, 262]
    assert rotations(3) == [0, 1, 2]


def test_a_suite_may_measure_fewer_images_or_none(store: BlobStore) -> None:
    server = ScriptedChat()
    assert measured(store, server, suite={"order_images": 4}).changes.n == 4
    assert len(server.asked) == 12
    with pytest.raises(InvalidRequest, match="set order_images above 0"):
        measured(store, server, suite={"order_images": 0})


def test_a_classifier_that_reads_no_list_is_refused(store: BlobStore) -> None:
    with pytest.raises(InvalidRequest, match="'timm:resnet50' reads no list of labels"):
        measured(store, ScriptedChat(), classifier="timm:resnet50")
    with pytest.raises(ValueError, match="'red' is listed twice"):
        measured(store, ScriptedChat(), classes=["red", "red"])


def test_the_server_of_a_question_must_be_listed_before_anything_starts() -> None:
    suite = fake_suite().model_copy(update={"chat": {"colour": chat_suite()}})
    with pytest.raises(UnknownModel, match="COUNTERPOSE_SERVICES_OPENAI_HOSTS"):
        require_server("classifiers", suite, ServiceSettings.model_validate({}))
    listed = ServiceSettings.model_validate({"openai_hosts": ("model.test",)})
    require_server("classifiers", suite, listed)
