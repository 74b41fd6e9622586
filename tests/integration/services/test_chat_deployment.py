"""The classifiers' deployment of a suite with a model that chats: it says what each call asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.spending import SPENT_HEADER, Spent
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite, load_suite
from counterpose_services.classifiers.deployment import ClassifiersDeployment
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from fakes.chat_server import COLOURS, ScriptedChat, chat_classifiers
from integration.services.test_deployments import application, client, settings


def deployment(store: BlobStore, server: ScriptedChat) -> ClassifiersDeployment:
    chat = chat_classifiers(server, store)
    engine = ClassifiersEngine.load(ClassifiersSuite(), Path("nowhere"), store, ClassifierOptions(), chat)
    return ClassifiersDeployment(settings(openai_in_flight=3), engine=engine)


async def test_each_call_tells_what_it_asked_for_and_a_repeated_one_costs_nothing(tmp_path: Path) -> None:
    store, server = BlobStore(str(tmp_path)), ScriptedChat()
    images = [store.put(encode_raw(np.full((8, 8, 3), shade, np.uint8))) for shade in COLOURS.values()]
    body = {"classifier": "chat:colour", "images": images, "classes": list(COLOURS)}
    async with client(application(deployment(store, server))) as http:
        first = await http.post("/v1/classify", json=body)
        again = await http.post("/v1/classify", json=body)
        order = await http.post("/v1/order-effect", json=body | {"seed": 1})
        other = await http.post("/v1/order-effect", json=body | {"seed": 1, "classifier": "timm:resnet18"})
    tops = [outcome["value"]["top"][0] for outcome in first.json()["outcomes"]]
    assert (tops, again.json()["outcomes"]) == ([0, 1, 2], first.json()["outcomes"])
    spent = [Spent.model_validate_json(each.headers[SPENT_HEADER]) for each in (first, again, order, other)]
    # Two looks in the first way that works, and the images; the listed order was answered before.
    assert spent == [
        Spent(calls=5, input_tokens=450, output_tokens=15),
        Spent(),
        Spent(calls=6, input_tokens=540, output_tokens=18),
        Spent(),
    ]
    assert order.json()["changes"]["n"] == 3
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "/classifier")


async def test_questions_are_listed_and_described_without_a_call(tmp_path: Path) -> None:
    server = ScriptedChat()
    async with client(application(deployment(BlobStore(str(tmp_path)), server))) as http:
        listed = (await http.get("/v1/classifiers")).json()["classifiers"]
        described = (await http.post("/v1/describe", json={"classifier": "chat:colour"})).json()
        unknown = await http.post("/v1/describe", json={"classifier": "chat:shape"})
    assert [each["spec"] for each in listed] == ["chat:colour"]
    assert described == listed[0]
    assert unknown.status_code == 404
    assert "has no question 'shape'" in unknown.json()["detail"]
    assert server.asked == []


def test_a_file_on_a_suite_may_add_questions_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'base = "miniature"\n[chat.damage]\nserver = "https://vlm.test/v1"\nmodel = "vlm"\n'
        'question = "Is it broken?"\nlabels = { broken = "yes", whole = "no" }\n'
    )
    suite = load_suite(str(file))
    assert suite.chat["damage"].labels == {"broken": "yes", "whole": "no"}
    assert suite.classifiers == load_suite("miniature").classifiers
    made = ClassifiersDeployment(settings(suite=str(file), state_dir=tmp_path))
    assert "chat:damage" in [each.spec for each in made.engine.list_classifiers().classifiers]
