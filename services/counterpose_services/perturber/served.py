"""The perturber whose language model a server has: another's, or a vLLM that this replica starts."""

from __future__ import annotations

from urllib.parse import urlsplit

from counterpose_core.blobs import digest
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.suite import PerturberSuite
from counterpose_services.models.model_folder import model_folder
from counterpose_services.openai_api.connect import listed_server, vllm_server
from counterpose_services.openai_api.terms import language_terms
from counterpose_services.openai_api.vllm import VllmModel, supports_batch_invariance
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.folders import model_folders
from counterpose_services.perturber.language_model import Sampling
from counterpose_services.perturber.openai_model import OpenAIModel
from counterpose_services.perturber.prompt_file import prompts_of
from counterpose_services.perturber.vocabulary import Vocabulary
from counterpose_services.settings import ServiceSettings


def load_served(suite: PerturberSuite, settings: ServiceSettings) -> PerturberEngine:
    """Connect to the suite's server, or start its vLLM and wait until it answers.

    Raises:
        UnknownModel: the host is not listed, a folder is missing, or there is no program vllm.
        ModelFormatRefused: weights are not safetensors, or a model without chat template is to chat.
        BackendUnavailable: vLLM ended, or does not answer in time.
    """
    prompts = prompts_of(suite)
    model = _of_vllm(suite, settings) if suite.server is None else _of_listed(suite, suite.server, settings)
    return PerturberEngine(model, style=suite.prompt, prompts=prompts)


def _of_listed(suite: PerturberSuite, url: str, settings: ServiceSettings) -> OpenAIModel:
    server = listed_server(url, language_terms(settings))
    reader = None
    if suite.tokenizer is not None:
        folder = model_folder(settings.suite_root, suite.tokenizer, suite.published.get(suite.tokenizer))
        reader = Vocabulary.load(folder, room=suite.max_new_tokens)
    return OpenAIModel(
        server,
        names=(suite.adapter or suite.model, suite.model),
        identities=(_named(suite, url, suite.adapter), _named(suite, url, None)),
        sampling=Sampling(suite.temperature, suite.top_k, suite.max_new_tokens),
        reader=reader,
    )


def _named(suite: PerturberSuite, url: str, adapter: str | None) -> ModelIdentity:
    """Name a model by its address: nobody but the server knows its weights, or when they change."""
    name = suite.model if adapter is None else f"{suite.model}+{adapter}"
    return ModelIdentity(id=f"{name} at {urlsplit(url).netloc}", revision=digest(f"{url} {name}".encode()))


def _of_vllm(suite: PerturberSuite, settings: ServiceSettings) -> OpenAIModel:
    own, found = settings.of("perturber"), model_folders(suite, settings.suite_root)
    vocabulary = Vocabulary.load(found.base, room=suite.max_new_tokens)
    if suite.prompt == "chat":
        vocabulary.require_chat_template(suite.model)
    adapters = {} if found.adapter is None or suite.adapter is None else {suite.adapter: found.adapter}
    invariant = supports_batch_invariance(own.device)
    model = VllmModel(
        folder=found.base,
        name=suite.model,
        dtype=own.dtype,
        device=own.device,
        gpu_share=own.num_gpus,
        adapters=adapters,
        batch_invariant=invariant,
    )
    return OpenAIModel(
        vllm_server("perturber", model, settings),
        names=(suite.adapter or suite.model, suite.model),
        identities=(_by_vllm(found.identity, invariant), _by_vllm(found.base_identity, invariant)),
        sampling=Sampling(suite.temperature, suite.top_k, suite.max_new_tokens),
        reader=vocabulary,
    )


def _by_vllm(identity: ModelIdentity, invariant: bool) -> ModelIdentity:
    """Name the engine with the weights: it draws by other random numbers than transformers does."""
    engine = f"vLLM, batch-invariant {'on' if invariant else 'off'}"
    return ModelIdentity(
        id=f"{identity.id} ({engine})", revision=digest(f"{identity.revision} {engine}".encode())
    )
