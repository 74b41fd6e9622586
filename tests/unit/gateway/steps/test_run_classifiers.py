"""The classifiers of a run: found by their specs, and described for grouping."""

from __future__ import annotations

import pytest

from counterpose_core.contract.classifiers import ClassifierDescription, ClassifierList, DescribeRequest
from counterpose_core.errors import UnknownModel
from counterpose_gateway.methods.shift_benchmark.summary import missing_metadata
from counterpose_gateway.steps.classifiers import check_classifiers, describe_classifiers
from fakes.ports import FakeClassifiers, fake_services
from fakes.recorded_benchmarks import recorded_config
from fakes.world import CLASSES, FakeWorld


def told(spec: str, **traits: object) -> ClassifierDescription:
    return ClassifierDescription.model_validate({"name": spec, "spec": spec} | traits)


class Listing(FakeClassifiers):
    """Lists a model of the suite, and a folder of the user's that has its name."""

    async def list_classifiers(self) -> ClassifierList:
        return ClassifierList(
            classifiers=[
                told("steady", classes=list(CLASSES), parameters=1),
                told("local:steady", name="steady", classes=["yak"], parameters=2),
                told("local:mine", name="mine", classes=list(CLASSES)),
            ]
        )


class Unknowing(FakeClassifiers):
    """Knows nothing but its list."""

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        raise UnknownModel(f"no classifier is named {request.classifier!r}", pointer="/classifier")


async def test_a_folder_does_not_shadow_a_suite_classifier_of_the_same_name() -> None:
    services = fake_services(FakeWorld(), classifiers=Listing(FakeWorld()))
    listed = await check_classifiers(["steady"], CLASSES, "a" * 64, services)
    assert listed["steady"].parameters == 1


async def test_a_folder_is_requested_by_its_spec_and_the_error_lists_the_specs() -> None:
    services = fake_services(FakeWorld(), classifiers=Listing(FakeWorld()))
    with pytest.raises(UnknownModel, match="there are local:mine, local:steady, steady") as caught:
        await check_classifiers(["steady", "mine"], CLASSES, "a" * 64, services)
    assert caught.value.pointer == "/classifiers/1"
    assert list(await check_classifiers(["local:mine"], CLASSES, "a" * 64, services)) == ["local:mine"]


async def test_a_misspelt_classifier_is_answered_with_the_one_that_is_near() -> None:
    services = fake_services(FakeWorld(), classifiers=Unknowing(FakeWorld()))
    with pytest.raises(UnknownModel, match=r"'steadyy' \(did you mean 'steady'\?\); there are"):
        await check_classifiers(["steadyy"], CLASSES, "a" * 64, services)


async def test_where_a_suite_has_no_classifier_a_name_needs_its_kind() -> None:
    class Empty(Unknowing):
        async def list_classifiers(self) -> ClassifierList:
            return ClassifierList(classifiers=[])

    services = fake_services(FakeWorld(), classifiers=Empty(FakeWorld()))
    with pytest.raises(UnknownModel, match="'mine'; name one with its kind, as timm:resnet50"):
        await check_classifiers(["mine"], CLASSES, "a" * 64, services)


async def test_a_network_of_timm_is_named_with_its_prefix() -> None:
    services = fake_services(FakeWorld(), classifiers=Listing(FakeWorld()))
    with pytest.raises(UnknownModel, match=r"'resnet50' \(did you mean 'timm:resnet50'\?\)"):
        await check_classifiers(["resnet50"], CLASSES, "a" * 64, services)


@pytest.mark.paper("DI-S6-zoo")
async def test_listed_classifiers_are_not_described_again() -> None:
    classifiers = FakeClassifiers(FakeWorld())
    services = fake_services(FakeWorld(), classifiers=classifiers)
    listed = {"steady": told("steady", classes=["boat"], parameters=3)}
    found = await describe_classifiers(["steady", "timm:resnet18"], listed, services)
    assert (found["steady"].parameters, found["steady"].classes) == (3, None)
    assert (found["timm:resnet18"].architecture, found["timm:resnet18"].resolution) == ("resnet18", 224)
    assert classifiers.calls["describe"] == 1


async def test_an_unknown_classifier_is_named_by_its_pointer_in_the_request() -> None:
    services = fake_services(FakeWorld(), classifiers=Unknowing(FakeWorld()))
    with pytest.raises(UnknownModel) as caught:
        await describe_classifiers(["steady", "timm:none"], {"steady": told("steady")}, services)
    assert caught.value.pointer == "/classifiers/1"


def test_missing_metadata_is_listed_in_one_note() -> None:
    whole = {"architecture": "vit", "parameters": 5, "resolution": 64, "training": "a1_in1k"}
    config = recorded_config(models=("a", "b", "c"))
    zoo = {"a": told("a", **whole), "b": told("b", **(whole | {"training": "", "parameters": None}))}
    (note,) = missing_metadata(config.model_copy(update={"zoo": zoo}))
    assert note == (
        "missing metadata, so in no group by it: architecture of c; parameters of b, c; "
        "resolution of c; training of b, c"
    )
    every = {name: told(name, **whole) for name in ("a", "b", "c")}
    assert missing_metadata(config.model_copy(update={"zoo": every})) == []


def test_long_lists_are_truncated() -> None:
    names = tuple(f"m{number}" for number in range(9))
    whole = {"architecture": "vit", "parameters": 5, "resolution": 64}
    config = recorded_config(models=names).model_copy(update={"zoo": {n: told(n, **whole) for n in names}})
    (note,) = missing_metadata(config)
    assert note.endswith("training of m0, m1, m2, m3, m4, m5 and 3 more")
