"""The judge by a second encoder: is an edited image still nearest to the images of its own class?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AutoModel

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.judges import JudgeItem, Judgement, JudgeRequest, JudgeResponse
from counterpose_core.images.clip_metrics import cosine, unit
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import EncoderSuite
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.models.cached_forward import Arrays, CachedForward
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.image_processors import load_image_processor
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.weights import weights_folder

Vector = npt.NDArray[np.float64]


class EncoderJudge:
    """Compares features, cached by image, with the mean of each class's references.

    The source of an edit is no reference for it: of two images that are alike, the one would vouch for the
    other.

    Raises:
        ModelFormatRefused: transformers has no network of this configuration, or weights or processor do not
            fit it. Code of the folder is never run.
    """

    def __init__(self, folder: Path, suite: EncoderSuite, store: BlobStore, *, device: str = "cpu") -> None:
        prepared = load_image_processor(folder)
        # The features are the last layer's; some checkpoints lack the pooling that others put behind it.
        self._model = load_fitting(
            AutoModel, folder, unread="pooler.", dtype=torch.float32, trust_remote_code=False
        )
        self._model.eval().to(torch.device(device))
        self.identity = ModelIdentity(id=suite.model, revision=folder_revision(folder))
        self._features = CachedForward[Tensor](
            store,
            "encoder-image",
            read=lambda ref: prepared(decode_image(store.get(ref))),
            forward=self._forward,
            inputs={"model": self.identity.revision},
            batch=suite.batch,
        )

    @classmethod
    def load(cls, suite: EncoderSuite, root: Path, store: BlobStore, *, device: str = "cpu") -> EncoderJudge:
        """Load the suite's encoder from its folder under ``root``; raises UnknownModel if there is none."""
        return cls(weights_folder(root, suite.model, suite.published), suite, store, device=device)

    def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Judge each edit by the class whose references it is nearest to.

        References without features, such as half a file, are left out; the judgement says how many. An edit
        fails by them where they are all that its own class has.
        """
        started = time.monotonic()
        references = [ref for refs in request.references.values() for ref in refs]
        asked = [*references, *(item.edited for item in request.items)]
        outcomes = dict(zip(asked, self._features(asked).outcomes, strict=True))

        unread = {ref for ref in references if outcomes[ref].problem is not None}

        def vector(ref: str) -> Vector:
            return unit(outcomes[ref].unwrap()["vector"])

        def judged(item: JudgeItem) -> Judgement:
            edited, near = vector(item.edited), dict[str, float]()
            for label, refs in request.references.items():
                others = [ref for ref in refs if ref != item.original]
                if read := [ref for ref in others if ref not in unread]:
                    near[label] = float(cosine(edited, np.mean([vector(ref) for ref in read], axis=0)))
                elif others and label == item.label:
                    outcomes[others[0]].unwrap()
            found = _nearest(near, item.label)
            if not unread:
                return found
            without = f"without {len(unread)} of {len(set(references))} references, which cannot be read"
            return found.model_copy(update={"detail": ", ".join(filter(None, (found.detail, without)))})

        judgements = settle(
            request.items,
            prepare=judged,
            run=list[Judgement],
            finish=lambda _, judgement: judgement,
            batch=len(request.items),
        )
        cost = Cost(seconds=time.monotonic() - started)
        return JudgeResponse(outcomes=judgements, model=self.identity, cost=cost)

    @torch.inference_mode()
    def _forward(self, images: Sequence[Tensor]) -> list[Arrays]:
        answer = self._model(pixel_values=torch.stack(list(images)).to(self._model.device))
        states = answer.last_hidden_state.float()
        # A transformer's first token stands for the image; of maps, the mean over places does.
        features = states[:, 0] if states.ndim == 3 else states.flatten(2).mean(2)
        return [{"vector": row.copy()} for row in features.cpu().numpy()]


def _nearest(near: Mapping[str, float], label: str) -> Judgement:
    own = near.get(label)
    others = {name: value for name, value in near.items() if name != label}
    if own is None or not others:
        lacks = repr(label) if own is None else "any other class"
        return Judgement(verdict="unsure", detail=f"the run has no other image of {lacks} to compare with")
    other = max(others, key=lambda name: others[name])
    score = own - others[other]
    if score > 0:
        return Judgement(verdict="yes", replies={"object": "yes"}, score=score)
    return Judgement(verdict="no", replies={"object": "no"}, score=score, detail=f"nearer to {other!r}")
