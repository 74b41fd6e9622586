"""The scorer as a Serve application; segmenter and judges are deployments of it, with their own replicas."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import scorer as contract
from counterpose_core.contract.judges import AskedJudge, JudgeRequest, JudgeResponse
from counterpose_core.contract.preservation import PreservationRequest, PreservationResponse
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import UnknownModel
from counterpose_core.served_calls import most_of_call
from counterpose_core.suite import load_suite
from counterpose_core.types import BlobRef
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.openai_api.metering import METER, NOTHING, Meter, note
from counterpose_services.serving.engine_protocols import Judge, Scorer, Segmenter
from counterpose_services.serving.engine_service import EngineService, application, deployment_options
from counterpose_services.settings import ServiceSettings


class SegmenterDeployment(EngineService[Segmenter]):
    """Serves a SegmenterEngine: beside a scorer by its application, or else alone by HTTP."""

    name = "scorer"

    @staticmethod
    def load(settings: ServiceSettings) -> Segmenter:
        """Load the suite's segmenter."""
        from counterpose_services.scorer.segmenter import SegmenterEngine

        suite = load_suite(settings.suite, settings)
        if suite.segmenter is None:
            raise UnknownModel(f"the suite {suite.name!r} has no segmenter; choose a suite with one")
        store, device = BlobStore(settings.store_url), settings.of("scorer").device
        return SegmenterEngine.load(suite.segmenter, settings.suite_root, store, device=device)

    @property
    def full_batch(self) -> float:
        """Its number of images."""
        return 1.0 if self._suite.segmenter is None else float(self._suite.segmenter.batch)

    @cached_property
    def _masks(self) -> MergedCalls[None, contract.SegmentItem, contract.SegmentResponse]:
        return self.merged(lambda _, items: self.engine.segment(contract.SegmentRequest(items=items)))

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return its one verb of ``counterpose_core.contract.scorer``."""
        return {"/v1/segment": self.segment}

    async def segment(self, body: contract.SegmentRequest) -> contract.SegmentResponse:
        """Outline the object of each image."""
        return await self._masks(None, body.items)

    async def answer(self, body: contract.SegmentRequest) -> contract.SegmentResponse:
        """Answer a call that came by the scorer, and count it as this replica's load."""
        answered: contract.SegmentResponse = await self._counted(self.segment)(body)
        return answered


class EncoderDeployment(EngineService[Judge]):
    """Serves an EncoderJudge, by a scorer's application alone."""

    name = "scorer"
    judge: AskedJudge = "encoder"

    @staticmethod
    def load(settings: ServiceSettings) -> Judge:
        """Load the suite's encoder."""
        from counterpose_services.scorer.encoder_judge import EncoderJudge

        suite = load_suite(settings.suite, settings)
        if suite.encoder is None:
            raise UnknownModel(f"the suite {suite.name!r} has no encoder; choose a suite with one")
        store, device = BlobStore(settings.store_url), settings.of("scorer").device
        return EncoderJudge.load(suite.encoder, settings.suite_root, store, device=device)

    @property
    def full_batch(self) -> float:
        """Its number of edits."""
        part = getattr(self._suite, self.judge)
        return 1.0 if part is None else float(part.batch)

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return its one verb, of ``counterpose_core.contract.judges``."""
        return {"/v1/judge": self.judged}

    async def judged(self, body: JudgeRequest) -> JudgeResponse:
        """Judge each edit."""
        return await self.thread.run(self.engine.judge, body)

    async def answer(self, body: JudgeRequest) -> tuple[JudgeResponse, Spent]:
        """Answer a call that came by the scorer, count it as this replica's load, and say what it took."""
        METER.set(meter := Meter())
        answered: JudgeResponse = await self._counted(self.judged)(body)
        return answered, meter.spent


class JudgeDeployment(EncoderDeployment):
    """Serves a ChatJudge likewise, which waits for a server and has no device."""

    judge = "judge"

    def _loaded(self) -> Judge:
        return self.load(self.settings)

    @staticmethod
    def load(settings: ServiceSettings) -> Judge:
        """Connect to the server of the suite's judge."""
        from counterpose_services.scorer.chat_judge import ChatJudge

        suite = load_suite(settings.suite, settings)
        if suite.judge is None:
            raise UnknownModel(f"the suite {suite.name!r} has no judge; choose a suite with one")
        return ChatJudge.load(suite.judge, settings, BlobStore(settings.store_url))

    @classmethod
    def calls_at_once(cls, settings: ServiceSettings) -> int:
        """Return as many calls as the server may have requests."""
        return settings.openai_in_flight


class ScorerDeployment(EngineService[Scorer]):
    """Serves a ScorerEngine; scores and embeddings of concurrent calls share a batch."""

    name = "scorer"

    def __init__(
        self,
        settings: ServiceSettings,
        engine: Scorer | None = None,
        segmenter: DeploymentHandle[Any] | None = None,
        encoder: DeploymentHandle[Any] | None = None,
        judge: DeploymentHandle[Any] | None = None,
    ) -> None:
        super().__init__(settings, engine)
        self._segmenter = segmenter
        judges = {"encoder": encoder, "judge": judge}
        self._judges = {name: handle for name, handle in judges.items() if handle is not None}

    @staticmethod
    def load(settings: ServiceSettings) -> Scorer:
        """Load the suite's scorer."""
        from counterpose_services.scorer.engine import ScorerEngine

        suite, store = load_suite(settings.suite, settings), BlobStore(settings.store_url)
        own = settings.of("scorer")
        return ScorerEngine.load(suite.scorer, settings.suite_root, store, device=own.device)

    @cached_property
    def _scores(self) -> MergedCalls[None, contract.ScoreItem, contract.ScoreResponse]:
        return self.merged(lambda _, items: self.engine.score(contract.ScoreRequest(items=items)))

    @cached_property
    def _images(self) -> MergedCalls[None, BlobRef, contract.EmbedResponse]:
        return self.merged(
            lambda _, images: self.engine.embed_images(contract.EmbedImagesRequest(images=images))
        )

    @cached_property
    def _texts(self) -> MergedCalls[contract.TextEncoder, str, contract.EmbedResponse]:
        return self.merged(
            lambda kind, texts: self.engine.embed_texts(contract.EmbedTextsRequest(texts=texts, encoder=kind))
        )

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.scorer``."""
        return {
            "/v1/score": self.score,
            "/v1/embed-images": self.embed_images,
            "/v1/embed-texts": self.embed_texts,
            "/v1/fill-mask": self.fill_mask,
            "/v1/preservation": self.preservation,
            "/v1/judge": self.judge,
            **({} if self._segmenter is None else {"/v1/segment": self.segment}),
        }

    async def score(self, body: contract.ScoreRequest) -> contract.ScoreResponse:
        """Measure each edit."""
        return await self._scores(None, body.items)

    async def embed_images(self, body: contract.EmbedImagesRequest) -> contract.EmbedResponse:
        """Embed each image."""
        return await self._images(None, body.images)

    async def embed_texts(self, body: contract.EmbedTextsRequest) -> contract.EmbedResponse:
        """Embed each text."""
        return await self._texts(body.encoder, body.texts)

    async def fill_mask(self, body: contract.FillMaskRequest) -> contract.FillMaskResponse:
        """Replace one word of each text."""
        return await self.thread.run(self.engine.fill_mask, body)

    async def preservation(self, body: PreservationRequest) -> PreservationResponse:
        """Measure what each edit changed beside what was asked for."""
        return await self.thread.run(self.engine.preservation, body)

    async def judge(self, body: JudgeRequest) -> JudgeResponse:
        """Have a replica of one of the suite's judges judge each edit.

        Raises:
            UnknownModel: the suite has no such judge.
        """
        if body.judge not in self._judges:
            raise UnknownModel(
                f"the suite {self._suite.name!r} has no judge {body.judge!r}; leave it out of the judges, or "
                "choose a suite with one"
            )
        # Until it answers: a replica that fails does not say what it had asked for.
        most = most_of_call(self._suite, self.name, body) or NOTHING
        note(most)
        answered: tuple[JudgeResponse, Spent] = await self._judges[body.judge].answer.remote(body)
        note(answered[1], instead_of=most)
        return answered[0]

    async def segment(self, body: contract.SegmentRequest) -> contract.SegmentResponse:
        """Have a replica of the segmenter outline the object of each image."""
        assert self._segmenter is not None
        answered: contract.SegmentResponse = await self._segmenter.answer.remote(body)
        return answered


def build(args: ServiceSettings) -> Application:
    """Return the scorer's application: ``serve run counterpose_services.scorer.deployment:build``."""
    suite = load_suite(args.suite, args)
    options = deployment_options("scorer", args)
    if suite.scorer_part is None:
        return application("scorer", SegmenterDeployment, args)

    def beside(part: object, name: str, service: type, **further: object) -> Application | None:
        own: dict[str, Any] = options | {"name": name} | further
        return None if part is None else serve.deployment(**own)(service).bind(args)

    without_gpu = options["ray_actor_options"] | {"num_gpus": 0}
    return serve.deployment(**options)(serve.ingress()(ScorerDeployment)).bind(
        args,
        None,
        beside(suite.segmenter, "segmenter", SegmenterDeployment),
        beside(suite.encoder, "encoder", EncoderDeployment),
        beside(suite.judge, "judge", JudgeDeployment, ray_actor_options=without_gpu),
    )
