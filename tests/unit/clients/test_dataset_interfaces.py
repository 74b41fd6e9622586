"""A dataset interface in the SDK: the issue's own example, its run's verbs, its images and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_core.errors import InvalidRequest
from fakes.interface_answers import (
    REF,
    TOKEN,
    an_interface_run,
    an_interface_summary,
    interface_answer,
    some_images,
)
from fakes.sdk import Session, ok, problem

ROOT = "/v1/dataset-interfaces"
PNG = httpx.Response(200, content=b"png")


def taken_up(kind: str, *answers: httpx.Response) -> tuple[Session, Any]:
    """A session that has taken up an interface, and its handle."""
    session = Session(kind, interface_answer(), *answers)
    return session, session(lambda client: client.dataset_interfaces.get("run-1"))


def test_the_example_runs_as_written() -> None:
    session = Session("sync", interface_answer(), interface_answer("completed"), some_images(16), PNG)
    client = session.client
    interface = client.dataset_interfaces.create(dataset="demo", token_init="class-name").wait()
    images = interface.generate(class_name="plate", shift="in the snow", n=16)
    assert len(images) == 16
    assert images[0].image_bytes() == b"png"
    assert json.loads(session.seen[0].content) | {"seed": 0} == json.loads(session.seen[0].content)
    assert session.seen[3].url.path == f"/v1/artifacts/{images[0].image}.png"


def test_generate_sends_every_argument(kind: str) -> None:
    session, interface = taken_up(kind, some_images(2))
    session(
        lambda _: interface.generate(
            class_name="plate", shift="<class> at dusk", n=2, seed=5, by_name=True, steps=4, guidance=2.5,
            scheduler="DDIMScheduler",
        )
    )  # fmt: skip
    request = session.seen[1]
    assert (request.method, request.url.path) == ("POST", "/v1/runs/run-1/generate")
    assert json.loads(request.content) == {
        "class_name": "plate", "shift": "<class> at dusk", "n": 2, "seed": 5, "by_name": True, "steps": 4,
        "guidance": 2.5, "scheduler": "DDIMScheduler",
    }  # fmt: skip


def test_generate_has_a_longer_timeout(kind: str) -> None:
    session, interface = taken_up(kind, some_images(1))
    session(lambda _: interface.generate(class_name="plate"))
    assert session.seen[1].extensions["timeout"]["read"] == 300.0


@pytest.mark.parametrize("n", [0, 65])
def test_more_images_than_one_call_generates_are_not_sent(kind: str, n: int) -> None:
    session, interface = taken_up(kind)
    with pytest.raises(InvalidRequest, match="n"):
        session(lambda _: interface.generate(class_name="plate", n=n))
    assert len(session.seen) == 1


def test_the_gateway_names_a_missing_class(kind: str) -> None:
    session, interface = taken_up(kind, problem(InvalidRequest("the interface has no class 'cup'")))
    with pytest.raises(InvalidRequest, match="'cup'"):
        session(lambda _: interface.generate(class_name="cup"))


def test_a_generated_image_holds_what_reproduces_it(kind: str) -> None:
    session, interface = taken_up(kind, some_images(2))
    images = session(lambda _: interface.generate(class_name="plate", shift="in the snow", n=2))
    last = images[1]
    assert (last.class_name, last.shift, last.seed, last.token) == ("plate", "in the snow", 101, TOKEN)
    assert last.prompt == "a photo of a <class> in the snow"
    assert repr(last).endswith("GeneratedImage('a photo of a <class> in the snow', seed=101)")
    assert (images.model.id, images.cost.unet_evaluations) == ("sd", 12)


def test_generated_images_are_saved_under_distinct_names(kind: str, tmp_path: Path) -> None:
    session, interface = taken_up(kind, some_images(2), PNG, PNG)
    images = session(lambda _: interface.generate(class_name="plate", shift="in the snow", n=2))
    paths = session(lambda _: images.save(tmp_path / "new" / "folder"))
    assert [path.name for path in paths] == [f"plate-in_the_snow-{each.image[:12]}.png" for each in images]
    assert len({path.name for path in paths}) == 2
    assert [path.read_bytes() for path in paths] == [b"png", b"png"]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "NUL\x00", "雪の皿", "x" * 300])
def test_the_name_of_a_class_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    session, interface = taken_up("sync", some_images(1, class_name=name), PNG)
    (path,) = session(lambda _: interface.generate(class_name="plate", n=1)).save(tmp_path)
    assert path.parent == tmp_path
    assert path.is_file()


def test_a_folder_that_cannot_be_written_is_named(kind: str, tmp_path: Path) -> None:
    session, interface = taken_up(kind, some_images(1), PNG)
    images = session(lambda _: interface.generate(class_name="plate", n=1))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidRequest, match="file"):
        session(lambda _: images[0].save(tmp_path / "file"))


def test_the_summary_names_tokens_and_what_is_missing(kind: str) -> None:
    summary = an_interface_summary()
    session, interface = taken_up(kind, ok(summary.model_dump_json(by_alias=True)))
    assert session(lambda _: interface.summary()) == summary
    assert session.seen[1].url.path == "/v1/runs/run-1/summary"


def test_items_are_tokens(kind: str) -> None:
    item = {
        "id": "i1", "ordinal": 0, "kind": "token", "item_group": "s", "source_image": REF, "label": "plate",
        "state": "done",
        "result": {"token": TOKEN, "initialiser": "plate", "steps": 5, "losses": [0.5], "n_images": 3},
    }  # fmt: skip
    session, interface = taken_up(kind, ok({"items": [item]}))
    (found,) = session(lambda _: interface.items())
    assert found.result.token == TOKEN


VERBS = {
    "refresh": ("GET", ""), "cancel": ("POST", "/cancel"), "resume": ("POST", "/resume"),
    "report": ("GET", "/report"), "items": ("GET", "/items"),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_methods_of_a_run_use_its_path(kind: str, verb: str) -> None:
    answers = {"report": httpx.Response(200, text="<html>"), "items": ok({"items": []})}
    session, interface = taken_up(kind, answers.get(verb, interface_answer()))
    session(lambda _: getattr(interface, verb)())
    method, rest = VERBS[verb]
    assert (session.seen[1].method, session.seen[1].url.path) == (method, f"/v1/runs/run-1{rest}")


def test_a_handle_prints_its_run(kind: str) -> None:
    _, interface = taken_up(kind)
    assert repr(interface).endswith("DatasetInterface(id='run-1', state='queued')")
    assert interface.run == an_interface_run()
