"""The timm zoo: pretrained ImageNet-1k networks by name, from safetensors only."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

# Before anything that imports torchvision, as timm does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import httpx
import timm
import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from timm.data import ImageNetInfo
from timm.models import PretrainedCfg

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_core.text.near_names import did_you_mean
from counterpose_services.classifiers.class_map import HeadClasses
from counterpose_services.classifiers.timm_network import Network, create_network, read_tensors
from counterpose_services.models.file_digests import DIGESTS

WEIGHTS = "model.safetensors"
IMAGENET_CLASSES = 1000
HUB_SECONDS = 5.0
"""How long the hub may take to answer at all before a download is tried."""

Fetch = Callable[[str], Path]
"""From the name of a hub repository to its weights file on this machine."""


def imagenet_classes() -> HeadClasses:
    """Return ImageNet-1k's classes by their descriptions, synonyms, WordNet ids and folders' names."""
    info, called = ImageNetInfo(), class_names()
    return HeadClasses(
        tuple(
            (description, called[own], *description.split(", "), own)
            for row in range(info.num_classes())
            for description, own in ((info.index_to_description(row), info.index_to_label_name(row)),)
        ),
        own=2,
    )


def load_zoo(name: str, fetch: Fetch) -> Network:
    """Load a pretrained ImageNet-1k network of the timm zoo.

    Raises:
        UnknownModel: timm has no such pretrained ImageNet-1k network, or its weights are unavailable.
        ModelFormatRefused: the file does not fit the architecture.
    """
    repository, head = _settings(name).hf_hub_id, imagenet_classes()
    assert repository is not None  # `_settings` checks it
    file = fetch(repository)
    # timm would raise its own errors for a damaged file, and would load NaN without an error.
    read_tensors(file, f"timm:{name}")
    # Without the file, timm may choose a pickle.
    module = create_network(name, pretrained=True, pretrained_cfg_overlay={"file": str(file)})
    return Network(module, head, ModelIdentity(id=f"timm:{name}", revision=DIGESTS.of(file)))


def describe_zoo(name: str) -> ClassifierDescription:
    """Describe a pretrained ImageNet-1k network by timm's own data; nothing is downloaded.

    Raises:
        UnknownModel: timm has no such network.
    """
    settings = _settings(name)
    size = settings.input_size
    return ClassifierDescription(
        name=f"timm:{name}",
        spec=f"timm:{name}",
        architecture=settings.architecture or name.partition(".")[0],
        parameters=_count_parameters(name),
        resolution=min(size[1:]),
        training=settings.tag or "",
    )


def is_in_zoo(name: str) -> bool:
    """Return whether timm has a pretrained ImageNet-1k network of this name."""
    try:
        _settings(name)
    except UnknownModel:
        return False
    return True


def _settings(name: str) -> PretrainedCfg:
    settings = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
    if settings is None or not settings.hf_hub_id:
        meant = did_you_mean(name, timm.list_models(pretrained=True, include_tags=False))
        raise UnknownModel(f"timm has no pretrained model {name!r}{meant}; see timm.list_pretrained()")
    if settings.num_classes != IMAGENET_CLASSES:
        raise UnknownModel(
            f"{name!r} of timm is not an ImageNet-1k classifier; choose one with 1,000 classes"
        )
    return settings


@lru_cache(maxsize=1024)
def _count_parameters(name: str) -> int | None:
    try:
        # The meta device has shapes only, so that nothing is allocated or initialised.
        with torch.device("meta"):
            module = create_network(name, pretrained=False)
    except ModelFormatRefused:
        # Some networks compute with their own weights while they are built.
        return None
    count: int = sum(parameter.numel() for parameter in module.parameters())
    return count


def _refusal(repository: str, error: HfHubHTTPError) -> str:
    """Say what the hub's answer means for whoever asked for the weights."""
    named = f"the repository {repository!r}"
    # Each is a kind of the next.
    if isinstance(error, GatedRepoError):
        return (
            f"{named} on the Hugging Face hub is gated: accept its licence there, and set HF_TOKEN to a "
            "token of that account for this service"
        )
    if isinstance(error, RepositoryNotFoundError):
        return f"{named} is not on the Hugging Face hub: it was renamed or removed, or is private"
    if isinstance(error, EntryNotFoundError):
        return (
            f"{named} on the Hugging Face hub has no {WEIGHTS}; pickled weights are not read, as reading "
            "them runs their code"
        )
    return f"{named} cannot be read from the Hugging Face hub: {str(error).splitlines()[0][:200]}"


def hub_weights(repository: str) -> Path:
    """Return the safetensors file of a hub repository, and download it if necessary.

    Raises:
        UnknownModel: it is not on this machine and cannot be downloaded.
    """
    for local_only in (True, False):
        if not local_only and not _hub_answers():
            break
        try:
            return Path(hf_hub_download(repository, WEIGHTS, local_files_only=local_only))
        except LocalEntryNotFoundError:
            continue
        except HfHubHTTPError as error:
            raise UnknownModel(_refusal(repository, error)) from error
    raise UnknownModel(
        f"the weights of {repository!r} are not on this machine, and the Hugging Face hub ({ENDPOINT}) "
        f"cannot be reached from it; where it can, run `hf download {repository} {WEIGHTS}`, then copy "
        f"{repo_folder_name(repo_id=repository, repo_type='model')} from its cache into the one of this "
        "machine, which is what HF_HUB_CACHE names, or ~/.cache/huggingface/hub"
    )


def _hub_answers() -> bool:
    # The hub's client tries an address that nobody answers six times, for half a minute.
    if HF_HUB_OFFLINE:
        return True
    try:
        httpx.head(ENDPOINT, timeout=HUB_SECONDS)
    except (httpx.ConnectError, httpx.TimeoutException, httpx.ProxyError):
        return False
    except httpx.HTTPError:
        # Something is there: what it says of the file is told by the download.
        return True
    return True
