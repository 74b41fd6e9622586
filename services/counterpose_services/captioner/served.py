"""The captioner whose model a server has: another's, or a vLLM that this replica starts."""

from __future__ import annotations

from urllib.parse import urlsplit

from counterpose_core.blobs import BlobStore, digest
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.openai_engine import OpenAICaptioner
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.weights import weights_folder
from counterpose_services.openai_api.connect import listed_server, vllm_server
from counterpose_services.openai_api.terms import language_terms
from counterpose_services.openai_api.vllm import VllmModel, supports_batch_invariance
from counterpose_services.settings import ServiceSettings


def load_served(suite: CaptionerSuite, settings: ServiceSettings, store: BlobStore) -> OpenAICaptioner:
    """Connect to the suite's server, or start its vLLM and wait until it answers.

    Raises:
        UnknownModel: the host is not listed, the folder is missing, or there is no program vllm.
        ModelFormatRefused: weights are not safetensors.
        BackendUnavailable: vLLM ended, or does not answer in time.
    """
    if suite.server is not None:
        server = listed_server(suite.server, language_terms(settings))
        # Nobody but the server knows its weights, or when they change.
        name, weights = f"{suite.model} at {urlsplit(suite.server).netloc}", f"{suite.server} {suite.model}"
    else:
        own, folder = (
            settings.of("captioner"),
            weights_folder(settings.suite_root, suite.model, suite.published),
        )
        invariant = supports_batch_invariance(own.device)
        model = VllmModel(
            folder=folder,
            name=suite.model,
            dtype=own.dtype,
            device=own.device,
            gpu_share=own.num_gpus,
            batch_invariant=invariant,
        )
        server = vllm_server("captioner", model, settings)
        name = f"{suite.model} (vLLM, batch-invariant {'on' if invariant else 'off'})"
        weights = f"{folder_revision(folder)} {name}"
    identity = ModelIdentity(id=name, revision=digest(f"{weights} {suite.instruction}".encode()))
    return OpenAICaptioner(server, identity=identity, suite=suite, store=store)
