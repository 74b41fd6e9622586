"""The zoo's networks: where their weights come from, and which are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from socket import socket

import httpx
import pytest
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import (
    ModelFormatRefused,
    UnknownModel,
)
from counterpose_services.classifiers import timm_zoo
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from counterpose_services.classifiers.timm_zoo import imagenet_classes
from fakes.damaged_checkpoints import long_header, spoil_weight
from fakes.hub import Repository, served_hub
from fakes.tiny_classifiers import SUITE, ask, predictions, put_image
from fakes.tiny_models.timm import save_timm


@pytest.mark.fault("B45")
@pytest.mark.parametrize("spoil", [long_header, spoil_weight("fc.bias", float("nan"))])
def test_a_corrupt_zoo_file_is_refused(
    spoil: Callable[[Path], None], root: Path, store: BlobStore, tmp_path: Path
) -> None:
    save_timm(tmp_path / "zoo", imagenet_classes().own_names)
    spoil(tmp_path / "zoo")
    registry = ClassifierRegistry(
        SUITE, root, store, ClassifierOptions(), fetch=lambda _: tmp_path / "zoo" / "model.safetensors"
    )
    with pytest.raises(ModelFormatRefused):
        registry.load("timm:test_resnet.r160_in1k")


@pytest.mark.paper("LANCE-S4.1-zoo")
def test_zoo_weights_are_fetched_by_repository_and_read_from_safetensors(
    root: Path, store: BlobStore, tmp_path: Path
) -> None:
    names = imagenet_classes().own_names
    save_timm(tmp_path / "zoo", names)
    asked: list[str] = []

    def fetch(repository: str) -> Path:
        asked.append(repository)
        return tmp_path / "zoo" / "model.safetensors"

    registry = ClassifierRegistry(SUITE, root, store, ClassifierOptions(), fetch=fetch)
    engine = ClassifiersEngine(registry, cache_bytes=10**9)
    found = ask(engine, "timm:test_resnet.r160_in1k", [put_image(store, 0)], ("tench", "goldfish"))
    assert asked == ["timm/test_resnet.r160_in1k"]
    assert len(predictions(found)[0].probabilities) == 2


def test_a_suite_can_forbid_the_zoo(root: Path, store: BlobStore) -> None:
    suite = SUITE.model_copy(update={"allow_timm": False})
    engine = ClassifiersEngine.load(suite, root, store, ClassifierOptions())
    with pytest.raises(UnknownModel, match="allow"):
        ask(engine, "timm:test_resnet", [put_image(store, 0)])


class Hub:
    """Replaces the hub's download: records whether the network was allowed, then answers or raises."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.local_only: list[bool] = []

    def __call__(self, repository: str, name: str, *, local_files_only: bool) -> str:
        assert name == "model.safetensors"
        self.local_only.append(local_files_only)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_local_weights_are_not_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub("/cache/model.safetensors")
    monkeypatch.setattr(timm_zoo, "hf_hub_download", hub)
    assert timm_zoo.hub_weights("timm/net") == Path("/cache/model.safetensors")
    assert hub.local_only == [True]


def test_weights_are_fetched_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(LocalEntryNotFoundError("not here"), "/cache/model.safetensors")
    monkeypatch.setattr(timm_zoo, "_hub_answers", lambda: True)
    monkeypatch.setattr(timm_zoo, "hf_hub_download", hub)
    timm_zoo.hub_weights("timm/net")
    assert hub.local_only == [True, False]


def test_an_unreachable_hub_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = LocalEntryNotFoundError("no network")
    monkeypatch.setattr(timm_zoo, "_hub_answers", lambda: True)
    monkeypatch.setattr(timm_zoo, "hf_hub_download", Hub(nowhere, nowhere))
    with pytest.raises(UnknownModel, match="cannot be reached"):
        timm_zoo.hub_weights("timm/net")


def test_an_unreachable_hub_is_reported_without_its_client_s_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(LocalEntryNotFoundError("not here"))
    monkeypatch.setattr(timm_zoo, "hf_hub_download", hub)
    # A port that nobody listens at.
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(timm_zoo, "ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(UnknownModel) as refused:
            timm_zoo.hub_weights("timm/resnet50.a1_in1k")
    assert time.monotonic() - started < 10
    assert hub.local_only == [True]
    for told in (
        "run `hf download timm/resnet50.a1_in1k model.safetensors`",
        "copy models--timm--resnet50.a1_in1k from its cache",
        "HF_HUB_CACHE",
    ):
        assert told in refused.value.detail


def test_a_misspelt_network_of_timm_is_answered_with_the_one_that_is_near() -> None:
    with pytest.raises(UnknownModel, match=r"'resnt50' \(did you mean 'resnet50'\?\)"):
        timm_zoo.describe_zoo("resnt50")


def test_a_network_of_timm_is_named_with_its_prefix(root: Path, store: BlobStore) -> None:
    registry = ClassifierRegistry(SUITE, root, store, ClassifierOptions())
    with pytest.raises(UnknownModel, match=r"'resnet50' \(did you mean 'timm:resnet50'\?\)"):
        registry.load("resnet50")


REFUSED = {
    "timm/pickled": "'timm/pickled' on the Hugging Face hub has no model.safetensors; pickled weights",
    "timm/gated": "'timm/gated' on the Hugging Face hub is gated: accept its licence",
    "timm/gone": "'timm/gone' is not on the Hugging Face hub: it was renamed or removed",
}


@pytest.fixture
def of_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read from a stand-in of the hub into an empty cache."""
    with served_hub() as hub:
        hub.repositories["models/timm/pickled"] = Repository("timm", {"pytorch_model.bin": b"a pickle"})
        hub.repositories["models/timm/new"] = Repository("timm", {"model.safetensors": b"some weights"})
        hub.gated.add("timm/gated")
        hub.renamed["timm/old"] = "timm/new"
        read = partial(hf_hub_download, endpoint=hub.address, cache_dir=tmp_path)
        monkeypatch.setattr(timm_zoo, "ENDPOINT", hub.address)
        monkeypatch.setattr(timm_zoo, "hf_hub_download", read)
        yield


@pytest.mark.fault("B42")
@pytest.mark.parametrize("repository", [*REFUSED])
def test_what_the_hub_does_not_give_is_refused_by_name(repository: str, of_stand_in: None) -> None:
    with pytest.raises(UnknownModel) as refused:
        timm_zoo.hub_weights(repository)
    assert REFUSED[repository] in refused.value.detail


@pytest.mark.fault("B42")
def test_weights_of_a_renamed_repository_are_read(of_stand_in: None) -> None:
    assert timm_zoo.hub_weights("timm/old").read_bytes() == b"some weights"


@pytest.mark.fault("B42")
def test_any_other_answer_of_the_hub_names_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(500, request=httpx.Request("GET", "https://hub.test/net"))
    refused = HfHubHTTPError("server error", response=answer)
    monkeypatch.setattr(timm_zoo, "_hub_answers", lambda: True)
    monkeypatch.setattr(timm_zoo, "hf_hub_download", Hub(LocalEntryNotFoundError("not here"), refused))
    with pytest.raises(
        UnknownModel, match="'timm/net' cannot be read from the Hugging Face hub: server error"
    ):
        timm_zoo.hub_weights("timm/net")


def test_a_network_without_an_imagenet_1k_head_is_refused() -> None:
    with pytest.raises(UnknownModel, match="ImageNet-1k"):
        timm_zoo.load_zoo("vit_base_patch16_224.augreg_in21k", Path)
