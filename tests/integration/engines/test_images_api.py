"""The editor behind the images API: what a server is asked, and what is recorded of its images."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore, digest
from counterpose_core.contract.editor import (
    GenerateItem,
    GenerateRequest,
    ImageSafety,
)
from counterpose_core.contract.served_images import ServedUsage
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import Cancelled, InvalidRequest, UnknownModel
from counterpose_core.images.codecs import Pixels, decode_image, encode_png, encode_raw
from counterpose_core.served_calls import most_of_call
from counterpose_services.editor.backends import Backends
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.requirements import require_servers
from counterpose_services.settings import ServiceSettings
from fakes.images_editor import CAPTION, EDITED, backend, edited, never, request, suite_of
from fakes.images_server import Asked, ImagesServer, Reply, always, drawing, images_server, obey, refusal
from fakes.world import fake_suite


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


@pytest.fixture
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)


@pytest.fixture
def image(store: BlobStore, pixels: Pixels) -> str:
    return store.put(encode_raw(pixels))


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


def test_an_edit_is_asked_for_by_a_form_and_an_instruction(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    [variant] = edited(backend(server, store), request(image))
    [asked] = server.asked
    assert (asked.path, asked.key) == ("/v1/images/edits", "Bearer of-the-house")
    assert asked.fields == {
        "model": "editor-1",
        "prompt": f'The image shows "{CAPTION}". Change it so that it shows "{EDITED}": replace "grass" by '
        '"water". Keep everything else exactly as it is: the same place, size, pose, colours and framing.',
        "n": "1",
        "response_format": "b64_json",
    }  # fmt: skip
    assert asked.image is not None
    assert np.array_equal(asked.image, pixels)
    made = decode_image(store.get(variant.image))
    assert made.shape == pixels.shape
    assert not np.array_equal(made, pixels)


def test_what_came_is_recorded_with_where_it_came_from(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    file = encode_png(np.zeros((12, 16, 3), dtype=np.uint8))
    server.answer = always(drawing(file))
    response = backend(server, store).edit(request(image), cancelled=never)
    served = response.outcomes[0].unwrap().variants[0].served
    assert served is not None
    host = f"127.0.0.1:{server.port}"
    assert (served.server, served.model, served.template) == (host, "editor-1", "both-captions")
    assert (served.seed, served.answer, served.size) == (None, digest(file), (16, 12))
    assert (served.drift_from, served.resized, served.noise_db) == (None, False, None)
    assert served.usage == ServedUsage(input_tokens=40, output_tokens=272, total_tokens=312)
    assert 0 < served.seconds < 30
    assert response.model.id == f"editor-1 at {host}"


def test_fields_are_sent_as_the_preset_says_that_the_server_takes_them(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    preset: dict[str, object] = {"seeded": True, "size": "source", "send_response_format": False}
    edited(backend(server, store, **preset), request(image, **preset))
    edited(backend(server, store), request(image, size="1024x1536"))
    first, second = (asked.fields for asked in server.asked)
    assert (first["size"], second["size"]) == ("16x12", "1024x1536")
    assert "response_format" not in first
    assert "seed" not in second
    assert 0 <= int(str(first["seed"])) < 2**31


def test_edits_of_an_image_share_its_seed_and_draws_and_images_do_not(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    other = store.put(encode_raw(np.zeros((8, 8, 3), dtype=np.uint8)))
    engine = backend(server, store, seeded=True)
    edited(engine, request(image, EDITED, "a photo of a cat on the grass", seeded=True))
    edited(engine, request(image, seeded=True, seed=7))
    variants = edited(engine, request(other, seeded=True))
    seeds = [asked.fields["seed"] for asked in server.asked]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3
    assert variants[0].served is not None
    assert str(variants[0].served.seed) == seeds[-1]


def test_a_caption_edited_to_itself_asks_twice_for_the_image_unchanged(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    engine, other = backend(server, store, seeded=True), store.put(encode_raw(pixels[::-1].copy()))
    # By the first of all it is seen whether a seed repeats an image.
    edited(engine, request(other, CAPTION, seeded=True))
    [control] = edited(engine, request(image, CAPTION, seeded=True))
    first, second = server.asked[3:]
    assert (
        first.fields["prompt"]
        == second.fields["prompt"]
        == "Return the image unchanged. Change nothing in it."
    )
    assert first.fields["seed"] != second.fields["seed"]
    made = decode_image(store.get(control.image)).astype(int)
    assert abs(made - pixels).max() <= 2
    assert control.served is not None
    # Two draws of grain from -2 to 2 differ by a mean square of 4.
    assert control.served.noise_db == pytest.approx(42.1, abs=1.0)


@pytest.mark.fault("F12")
@pytest.mark.parametrize("repeats", [True, False])
def test_a_server_that_makes_another_image_for_the_same_seed_is_told_of(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels, repeats: bool
) -> None:
    if not repeats:
        # It takes the seed, and does not mind it.
        server.answer = lambda asked, closing: obey(
            Asked(asked.path, {"prompt": asked.fields["prompt"]}, asked.key, asked.image), closing
        )
    engine = backend(server, store, seeded=True)
    [edit] = edited(engine, request(image, seeded=True))
    [first] = edited(engine, request(image, CAPTION, seeded=True))
    other = store.put(encode_raw(pixels[::-1].copy()))
    [later] = edited(engine, request(other, CAPTION, seeded=True))
    _, *controls = server.asked
    seeds = [asked.fields["seed"] for asked in controls]
    # The first control of all is asked for by one seed twice, and the rest stays as it was.
    assert (seeds[2], len(seeds), len(set(seeds))) == (seeds[0], 5, 4)
    told = [served.seed_repeats for made in (edit, first, later) if (served := made.served) is not None]
    assert told == [None, repeats, None]
    noise = [served.noise_db for made in (first, later) if (served := made.served) is not None]
    assert noise == [pytest.approx(42.1, abs=1.5)] * 2
    again = [edited(engine, request(each, CAPTION, seeded=True))[0].served for each in (image, other)]
    assert (again, len(server.asked)) == ([first.served, later.served], 6)
    [plain] = edited(backend(server, store), request(image, CAPTION))
    assert plain.served is not None
    assert plain.served.seed_repeats is None


def test_one_of_the_controls_of_a_call_is_asked_for_again_by_its_seed(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    [item] = request(image, CAPTION, seeded=True).items
    images = [image, *(store.put(encode_raw(np.roll(pixels, by, 1))) for by in (1, 2))]
    items = [item.model_copy(update={"image": each}) for each in images]
    call = request(image, CAPTION, seeded=True).model_copy(update={"items": items})
    made = [variant.served for variant in edited(backend(server, store, seeded=True), call)]
    assert len(server.asked) == 7
    assert sorted(str(served.seed_repeats) for served in made if served is not None) == [
        "None",
        "None",
        "True",
    ]
    assert all(served is not None and served.noise_db is not None for served in made)
    suite = fake_suite().model_copy(update={"editor_part": suite_of(server.url, seeded=True)})
    assert most_of_call(suite, "editor", call) == Spent(calls=7, images=7)
    assert most_of_call(suite, "editor", request(image, seeded=True)) == Spent(calls=1, images=1)


def test_a_seed_is_checked_later_if_the_server_fails_meanwhile(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    def refuse_third(asked: Asked, closing: threading.Event) -> Reply:
        return refusal(400, "no") if len(server.asked) == 3 else obey(asked, closing)

    server.answer = refuse_third
    engine, call = backend(server, store, seeded=True), request(image, CAPTION, seeded=True)
    [outcome] = engine.edit(call, cancelled=never).outcomes
    assert outcome.problem is not None
    [control] = edited(engine, call)
    assert control.served is not None
    assert (control.served.seed_repeats, len(server.asked)) == (True, 4)


def test_the_noise_of_controls_that_differ_in_size_is_not_known(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    def grow(asked: Asked, closing: threading.Event) -> Reply:
        return drawing(encode_png(np.zeros((12, 16 * len(server.asked), 3), dtype=np.uint8)))

    server.answer = grow
    [control] = edited(backend(server, store), request(image, CAPTION))
    assert len(server.asked) == 2
    assert control.served is not None
    assert control.served.noise_db is None


@pytest.mark.parametrize("resize", [False, True])
def test_another_size_is_drift_and_only_undone_where_the_preset_says_so(
    server: ImagesServer, store: BlobStore, image: str, resize: bool
) -> None:
    server.answer = always(drawing(encode_png(np.zeros((24, 24, 3), dtype=np.uint8))))
    [variant] = edited(backend(server, store, resize=resize), request(image, resize=resize))
    served = variant.served
    assert served is not None
    assert (served.size, served.drift_from, served.resized) == ((24, 24), (16, 12), resize)
    assert decode_image(store.get(variant.image)).shape == ((12, 16, 3) if resize else (24, 24, 3))


def test_an_answer_is_not_asked_for_again_unless_something_that_was_asked_differs(
    server: ImagesServer, store: BlobStore, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = edited(backend(server, store), request(image))
    [again] = edited(backend(server, store), request(image))
    # What comes after the answer needs no other one.
    edited(backend(server, store), request(image, resize=True))
    assert len(server.asked) == 1
    assert (first.image, first.served) == (again.image, again.served)
    edited(backend(server, store), request(image, seed=1))
    edited(backend(server, store), request(image, size="auto"))
    assert len(server.asked) == 3
    from counterpose_core.text import edit_instruction
    from counterpose_services.editor import images_api

    changed = edit_instruction.TEMPLATES["both-captions"]
    texts = changed.__class__(**{**changed.texts, "several": "Otherwise."})
    monkeypatch.setattr(images_api, "TEMPLATES", {"both-captions": texts})
    edited(backend(server, store), request(image))
    assert len(server.asked) == 4


def test_images_come_from_text_where_the_preset_says_so(server: ImagesServer, store: BlobStore) -> None:
    asked = GenerateRequest(items=[GenerateItem(prompt="a red boat", seed=2**40 + 5)])
    with pytest.raises(InvalidRequest, match="'images-api' lacks the capability 'draw'"):
        backend(server, store).generate(asked, cancelled=never)
    engine = backend(server, store, text_to_image=True, seeded=True)
    [outcome] = engine.generate(asked, cancelled=never).outcomes
    made = outcome.unwrap()
    [sent] = server.asked
    assert sent.path == "/v1/images/generations"
    assert sent.fields == {
        "model": "editor-1", "prompt": "a red boat", "n": 1, "size": "32x32", "seed": 5,
        "response_format": "b64_json",
    }  # fmt: skip
    assert decode_image(store.get(made.image)).shape == (32, 32, 3)
    assert made.served is not None
    assert (made.served.template, made.served.seed) == (None, 5)
    assert store.recall("generated-image", made.image) == made.image
    with pytest.raises(InvalidRequest, match="takes no steps, guidance or scheduler"):
        engine.generate(asked.model_copy(update={"steps": 8}), cancelled=never)
    learned = GenerateItem(prompt="a <class>", seed=1, token="0" * 64)
    [outcome] = engine.generate(GenerateRequest(items=[learned]), cancelled=never).outcomes
    assert outcome.problem is not None
    assert "lacks the capability 'tokens'" in outcome.problem.detail
    assert len(server.asked) == 1


def test_what_a_server_can_do_is_what_its_presets_declare(server: ImagesServer, store: BlobStore) -> None:
    assert backend(server, store).capabilities.abilities == {"instruction", "mask"}
    able = backend(server, store, seeded=True, text_to_image=True).capabilities
    assert able.abilities == {"instruction", "mask", "seeded", "draw"}


def test_the_safety_checker_judges_what_a_server_made(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    verdict = ImageSafety(flagged=True, score=0.2)
    engine = ImagesApi(
        server.client(), suite_of(server.url), store, judge=lambda images: [verdict] * len(images)
    )
    assert [variant.safety for variant in edited(engine, request(image))] == [verdict]


def test_nothing_is_asked_for_a_caller_who_has_gone(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    with pytest.raises(Cancelled):
        backend(server, store).edit(request(image), cancelled=lambda: True)
    assert server.asked == []


def test_a_suite_s_server_is_called_only_if_the_operator_lists_it(tmp_path: Path, store: BlobStore) -> None:
    suite = suite_of("https://images.example/v1")
    settings = ServiceSettings.model_validate({"state_dir": tmp_path, "openai_hosts": ("images.example",)})
    with pytest.raises(UnknownModel, match=r"add 'images\.example' to COUNTERPOSE_SERVICES_IMAGES_HOSTS"):
        Backends.load(suite, settings, store)
    listed = settings.model_copy(update={"images_hosts": ("images.example",)})
    loaded = Backends.load(suite, listed, store)
    assert (loaded.identity.id, loaded.rows()) == ("editor-1 at images.example", (0, 0))


def test_a_server_that_is_not_listed_is_named_before_anything_starts(tmp_path: Path) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(
        'base = "miniature"\n[editor]\nmodel = "e"\nserver = "https://images.example/v1"\nresolution = 64\n'
        'default_preset = "api"\n[editor.presets.api]\nbackend = "images-api"\n',
        encoding="utf-8",
    )
    settings = ServiceSettings.model_validate({"state_dir": tmp_path, "suite": str(suite)})
    with pytest.raises(UnknownModel, match=r"add 'images\.example' to COUNTERPOSE_SERVICES_IMAGES_HOSTS"):
        require_servers(settings, ["editor"])
    require_servers(settings.model_copy(update={"images_hosts": ("images.example",)}), ["editor"])


def test_the_key_of_the_language_models_is_not_sent_to_a_server_of_images(
    tmp_path: Path, server: ImagesServer, store: BlobStore, image: str
) -> None:
    for name in ("language", "images"):
        (tmp_path / name).write_text(f"key-of-{name}", encoding="utf-8")
        (tmp_path / name).chmod(0o600)
    settings = ServiceSettings.model_validate(
        {
            "state_dir": tmp_path,
            "openai_key_file": tmp_path / "language",
            "images_hosts": (f"127.0.0.1:{server.port}",),
        }
    )
    suite = suite_of(server.url)
    Backends.load(suite, settings, store).edit(request(image), cancelled=never)
    keyed = settings.model_copy(update={"images_key_file": tmp_path / "images"})
    Backends.load(suite, keyed, store).edit(request(image, seed=1), cancelled=never)
    assert [asked.key for asked in server.asked] == [None, "Bearer key-of-images"]
