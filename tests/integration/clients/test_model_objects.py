"""Model objects as classifiers: torch modules and callables of the caller's own program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from counterpose import Classifier, Client, InvalidRequest
from counterpose._python_function.local_functions import LocalFunctions
from counterpose._python_function.model import ModelObject
from fakes.sdk import Session, run_answer

HERE = httpx.URL("http://127.0.0.1:8080")
SIZE = (4, 6)
DARK, WHITE = bytes(4 * 6 * 3), bytes([255]) * (4 * 6 * 3)

Images = NDArray[numpy.uint8]


class Light(torch.nn.Module):
    """Two logits: how dark and how light an image is."""

    def __init__(self, **attributes: object) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(10.0))
        self.norm = torch.nn.BatchNorm1d(1)
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits (n, 2) of a batch (n, 3, height, width)."""
        assert batch.shape[1:] == (3, *SIZE), batch.shape
        assert not self.norm.training, "a batch must not change what the network has learned"
        light = batch.mean(dim=(1, 2, 3))
        return self.scale * torch.stack([1 - light, light], dim=1)


def light(images: Images) -> NDArray[numpy.float64]:
    """Probabilities of dark and light."""
    share = images.mean(axis=(1, 2, 3)) / 255.0
    return numpy.stack([1 - share, share], axis=1)


def served(model: Any, **options: Any) -> ModelObject:
    """The model as a run would ask it."""
    return ModelObject(Classifier(model, input_size=SIZE, **options))


def test_a_module_answers_with_the_softmax_of_its_logits() -> None:
    module = Light()
    model = served(module, classes=["dark", "light"])
    dark, white = model.rows(DARK + WHITE, 2)
    odds = float(1 / (1 + numpy.exp(-10.0)))
    assert dark == pytest.approx([odds, 1 - odds])
    assert white == pytest.approx([1 - odds, odds])
    assert (model.classes, model.name) == (["dark", "light"], "Light")


def test_a_module_is_left_in_the_mode_that_it_was_in() -> None:
    module = Light().train()
    module.norm.eval()
    served(module).rows(DARK, 1)
    assert module.training
    assert not module.norm.training
    assert module.scale.grad is None


def test_a_module_gets_its_own_precision() -> None:
    assert served(Light().double()).rows(DARK, 1)[0] == pytest.approx([1.0, 0.0], abs=1e-4)


def test_a_transform_gets_one_pil_image_and_its_results_are_stacked() -> None:
    seen: list[Image.Image] = []

    def transform(image: Image.Image) -> torch.Tensor:
        seen.append(image)
        return torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1) / 255.0

    assert served(Light(), transform=transform).rows(WHITE, 1)[0] == pytest.approx([0.0, 1.0], abs=1e-4)
    assert {(image.mode, image.size) for image in seen} == {("RGB", (6, 4))}


def test_a_callable_takes_uint8_images_and_returns_probabilities() -> None:
    model = served(light)
    assert model.rows(DARK + WHITE, 2) == [[1.0, 0.0], [0.0, 1.0]]
    assert (model.classes, model.name) == (None, "light")


def test_a_callable_may_return_logits_if_that_is_said() -> None:
    def logits(images: Images) -> NDArray[numpy.float64]:
        return 20.0 * light(images) - 10.0

    assert served(logits, logits=True).rows(DARK, 1)[0] == pytest.approx([1.0, 0.0], abs=1e-8)


def test_an_answer_may_be_an_object_with_logits() -> None:
    class Output:
        def __init__(self, logits: torch.Tensor) -> None:
            self.logits = logits

    class Wrapped(Light):
        def forward(self, batch: torch.Tensor) -> Any:
            return Output(super().forward(batch))

    assert served(Wrapped()).rows(DARK, 1)[0] == pytest.approx([1.0, 0.0], abs=1e-4)


def test_what_a_model_says_of_itself_is_used() -> None:
    module = Light(classes=("dark", "light"), input_size=SIZE)
    model = ModelObject(module)
    assert (model.classes, model.size) == (["dark", "light"], SIZE)


def test_a_model_s_name_is_fit_for_an_address() -> None:
    assert served(light, name="My net/2: é").name == "My-net-2"
    assert served(lambda images: light(images)).name == "lambda"


def always(row: list[float]) -> Callable[[Images], list[list[float]]]:
    """A model that answers every image alike."""
    return lambda images: [row] * len(images)


def second(row: list[float]) -> Callable[[Images], list[list[float]]]:
    """A model whose second row is this one."""
    return lambda images: [[0.5, 0.5], row][: len(images)]


def failing(images: Images) -> NDArray[numpy.float64]:
    raise RuntimeError("no weights\nyet")


class Sigmoids(torch.nn.Module):
    """Three scores between 0 and 1, each alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([0.5, -0.5, 2.0]))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Scores (n, 3)."""
        return torch.sigmoid(batch.mean(dim=(1, 2, 3))[:, None] * self.scale)


def test_a_module_that_ends_in_sigmoids_is_refused_unless_they_are_said_to_be_logits() -> None:
    with pytest.raises(InvalidRequest, match=r"'Sigmoids' returned scores .* as those of a sigmoid"):
        served(Sigmoids())
    [row] = served(Sigmoids(), logits=True).rows(DARK, 1)
    assert row == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("options", [{}, {"logits": True}])
def test_a_module_of_one_logit_is_refused(options: dict[str, Any]) -> None:
    class One(Light):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return super().forward(batch)[:, :1]

    with pytest.raises(InvalidRequest, match="one logit for each image, and the softmax of one is 1"):
        served(One(), **options)


UNUSABLE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "logits": (always([3.0, 2.0]), {}, "row 0 that is not probabilities: it sums to 5, not 1"),
    "negative logits": (
        second([-3.0, 4.0]),
        {},
        "row 1 that is not probabilities: it has -3, which is below 0",
    ),
    "nan": (second([float("nan"), 1.0]), {}, "row 1 that is not probabilities: it has NaN"),
    "nan logits": (
        second([float("nan"), 1.0]),
        {"logits": True},
        "row 1 that is not probabilities: it has NaN",
    ),
    "one row": (lambda images: [[1.0]], {}, "shape (1, 1) for 2 images"),
    "one number an image": (lambda images: [1.0] * len(images), {}, "shape (2,) for 2 images"),
    "maps": (
        lambda images: numpy.zeros((len(images), 2, 3)),
        {"logits": True},
        "shape (2, 2, 3) for 2 images",
    ),
    "nothing": (lambda images: None, {}, "two grey images"),
    "raises": (failing, {}, "RuntimeError: no weights yet"),
    "other width": (light, {"classes": ["a", "b", "c"]}, "returned 2 classes, but it names 3: a, b, c"),
    "no size": (light, {"input_size": 224}, "input_size must be (height, width)"),
    "transform fails": (light, {"transform": lambda image: image.absent}, "AttributeError"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_model_is_rejected_before_the_run_with_its_name(case: str) -> None:
    model, options, named = UNUSABLE[case]
    made = Classifier(model, **({"input_size": SIZE, "name": "mine"} | options))
    with pytest.raises(InvalidRequest) as refused:
        ModelObject(made)
    assert named in refused.value.detail
    assert "'mine'" in refused.value.detail


def test_a_module_that_ends_in_a_softmax_is_not_squashed_twice() -> None:
    with pytest.raises(InvalidRequest, match="logits=False"):
        served(torch.nn.Sequential(Light(), torch.nn.Softmax(dim=1)))
    assert served(torch.nn.Sequential(Light(), torch.nn.Softmax(dim=1)), logits=False).rows(DARK, 1)


def test_an_image_that_a_model_fails_on_later_is_named_by_its_row() -> None:
    def picky(images: Images) -> NDArray[numpy.float64]:
        found = light(images)
        found[(images == 255).all(axis=(1, 2, 3))] = float("nan")
        return found

    rows = served(picky).rows(DARK + WHITE, 2)
    assert rows[0] == [1.0, 0.0]
    assert "row 1" in str(rows[1])


@pytest.fixture
def functions() -> Iterator[LocalFunctions]:
    """The servers of a client."""
    made = LocalFunctions()
    yield made
    made.close()


def test_every_run_gets_an_address_of_its_own(functions: LocalFunctions) -> None:
    model = Classifier(light, input_size=SIZE)
    first, again = (functions.serve_functions([model], HERE)[0] for _ in range(2))
    assert first != again
    # A port may be given again, and services cache what an address returned.
    assert first.rpartition("/")[2] != again.rpartition("/")[2]
    with httpx.Client(trust_env=False) as client:
        assert {client.get(spec.removeprefix("oip:")).status_code for spec in (first, again)} == {200}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_takes_names_and_objects_alike(kind: str) -> None:
    session = Session(kind, run_answer())
    session.client._http.base_url = HERE
    model = Classifier(light, input_size=SIZE, classes=["dark", "light"])
    session(lambda c: c.stress_tests.create(dataset="demo", classifiers=["steady", model], seed=0))
    asked = json.loads(session.seen[0].content)
    assert asked["classifiers"] == ["steady", "light"]
    assert "/v2/models/light/versions/" in asked["functions"]["light"]
    with httpx.Client(trust_env=False) as client:
        metadata = client.get(asked["functions"]["light"]).json()
    assert metadata["outputs"][0]["parameters"] == {"labels": ["dark", "light"]}
    session(lambda c: c.close())


def test_models_of_one_name_are_numbered_and_none_takes_a_name_of_the_suite(
    functions: LocalFunctions,
) -> None:
    model = Classifier(light, input_size=SIZE, name="steady")
    named = functions.name_functions(functions.serve_functions(["steady", model, model], HERE))
    assert named.names == ["steady", "steady-2", "steady-3"]
    assert functions.functions_named(named.names) == named.functions
    assert all("/v2/models/steady/" in address for address in named.functions.values())
    assert not any(address in repr(named) for address in named.functions.values())


def test_an_object_is_rejected_for_a_gateway_on_another_machine(functions: LocalFunctions) -> None:
    with pytest.raises(InvalidRequest, match="Classifier\\('light'\\) is an object in this program"):
        functions.serve_functions([Classifier(light)], httpx.URL("http://gateway.example"))


@pytest.mark.parametrize("wrong", [3, None, {"a": 1}])
def test_what_cannot_be_called_is_no_classifier(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"{type(wrong).__name__} is not"), Client(str(HERE)) as client:
        client.serve_functions([wrong])


def test_one_name_is_no_list_of_classifiers() -> None:
    with pytest.raises(InvalidRequest, match=r"such as \['steady'\]"), Client(str(HERE)) as client:
        client.serve_functions("steady")
