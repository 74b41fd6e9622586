"""The command: JSON, what it sends, what it rejects before anything is sent."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from counterpose import Client
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.stress_test import stress_test_figures
from counterpose_core.contract.proofs import FindingHistory
from counterpose_core.contract.stress_test_estimates import ProvableClass
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import NotFound
from counterpose_core.types import Cost
from fakes.archives import export_answer
from fakes.benchmark_answers import (
    a_benchmark_summary,
    benchmark_answer,
    benchmark_summary_answer,
    prompt_rows,
)
from fakes.command import Play, done, run, stress_test
from fakes.findings import a_finding
from fakes.interface_answers import an_interface_summary, interface_answer, some_images
from fakes.sdk import (
    a_run,
    a_summary,
    an_estimate,
    figure,
    ok,
    one_run_listed,
    problem,
    run_answer,
)  # fmt: skip

ANSI = re.compile(r"\x1b\[")
DATASET = {
    "name": "mine", "classes": ["bus"], "n_sources": 2, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
SERVICE = {"service": "scorer", "ready": False, "detail": "loading"}
CLASSIFIER = {"spec": "leaning-resnet", "architecture": "test_resnet", "name": "leaning-resnet"}


def applied() -> list[httpx.Response]:
    """The answers of a follow-up: the run, its finding, the new run, and how that ends."""
    asked = {"dataset": "demo", "classifiers": ["steady"], "seed": 4}
    first = a_run("completed", 3).model_copy(update={"resolved_config": {"request": asked}})
    finding = a_finding(number=1, removed="grass", added="snow")
    history = FindingHistory(
        run_id="run-1", told=finding, finding=finding, runs=[], pairs=[], e_value=1.0, e_value_needed=20.0,
        family=1, images_needed=None,
    )  # fmt: skip
    resolved = {"request": {**asked, "interventions": [{"removed": "grass", "added": "snow"}]}}
    created = a_run(run_id="run-2").model_copy(update={"resolved_config": resolved})
    return [*(ok(body.model_dump_json()) for body in (first, history, created)), *done()[1:]]


def learned() -> list[httpx.Response]:
    """The answers of an interface that ends well."""
    summary = an_interface_summary().model_dump_json(by_alias=True)
    return [interface_answer(), interface_answer("completed", 3), ok(summary)]


def benchmarked() -> list[httpx.Response]:
    """The answers of a benchmark that ends well."""
    summary = a_benchmark_summary(prompts=prompt_rows())
    return [benchmark_answer(), benchmark_answer("completed", 3), benchmark_summary_answer(summary)]


JSON_OF = {
    "apply": (("apply", "run-1", "--finding", "1"), applied),
    "stress-test": (("stress-test", "demo", "--classifier", "a"), done),
    "detached": (
        ("stress-test", "demo", "--classifier", "a", "--detach"), lambda: [run_answer()]
    ),
    "wait": (("runs", "wait", "run-1"), done),
    "cancel": (("runs", "cancel", "run-1"), lambda: [run_answer(), run_answer("cancelled")]),
    "resume": (("runs", "resume", "run-1"), lambda: [run_answer(), run_answer()]),
    "runs": (("runs", "list"), lambda: one_run_listed()),
    "show": (("show", "run-1"), lambda: done()[1:]),
    "runs show": (("runs", "show"), lambda: [*one_run_listed(), done()[2]]),
    "report": (("report", "run-1"), lambda: [run_answer(), httpx.Response(200, text="<html>")]),
    "dataset-interface": (("dataset-interface", "demo"), learned),
    "generate": (
        ("generate", "run-1", "plate", "--shift", "in the snow"),
        lambda: [interface_answer(), some_images(2)],
    ),
    "shift-benchmark": (("shift-benchmark", "i-1", "--classifier", "a"), benchmarked),
    "compare-prompts": (
        ("compare-prompts", "i-1", "plate", "--prompt", "in the snow", "--classifier", "a"), benchmarked
    ),
    "export": (("export", "run-1", "--out", "out"), lambda: [run_answer(), export_answer()]),
    "datasets show": (("datasets", "show", "mine"), lambda: [ok(DATASET)]),
    "classifiers check": (
        ("classifiers", "check", "leaning-resnet"), lambda: [ok({"classifiers": [CLASSIFIER]})]
    ),
    "datasets": (("datasets", "list"), lambda: [ok({"datasets": [DATASET]})]),
    "classifiers": (("classifiers", "list"), lambda: [ok({"classifiers": [CLASSIFIER]})]),
    "services": (("services",), lambda: [ok({"services": [SERVICE | {"ready": True}]})]),
}  # fmt: skip


@pytest.mark.parametrize("verb", JSON_OF)
def test_with_json_standard_output_holds_nothing_else(
    play: Play, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    arguments, answers = JSON_OF[verb]
    play(*answers())
    shown = run(*arguments, "--json")
    assert shown.exit_code == 0, shown.output
    assert not ANSI.search(shown.stdout)
    assert json.loads(shown.stdout)


@pytest.mark.parametrize("verb", JSON_OF)
def test_without_json_the_output_is_text(play: Play, verb: str) -> None:
    arguments, answers = JSON_OF[verb]
    play(*answers())
    shown = run(*arguments)
    assert shown.exit_code == 0
    assert shown.stdout.strip()
    with pytest.raises(ValueError, match=r"Expecting|Extra data"):
        json.loads(shown.stdout)


def test_the_json_of_a_summary_has_the_keys_of_its_schema(play: Play) -> None:
    play(*done())
    body = json.loads(stress_test("--json").stdout)
    assert "yield" in body
    assert "yields" not in body
    assert body["models"]["steady"]["original"]["hit_rates"][0].keys() == {"estimate", "low", "high", "n"}


def test_the_cost_of_a_run_is_shown_in_json_and_in_text(play: Play) -> None:
    play(*done())
    cost = json.loads(stress_test("--json").stdout)["cost"]
    assert {"unet_evaluations", "flops", "attention_map_bytes", "host_syncs"} <= cost.keys()
    play(*done())
    told = [line for line in stress_test().stdout.splitlines() if line.startswith("cost: ")]
    assert told == [f"cost: {Cost.model_validate(cost)}"]
    assert "UNet evaluation" in told[0]


def test_what_a_run_dropped_is_shown_by_its_reason() -> None:
    whole = a_summary(steady=figure())
    assert "dropped" not in stress_test_figures(whole)
    without = whole.model_copy(update={"dropped": {"not-applicable": 66, "label-in-edit": 1}})
    assert "dropped: 66 not-applicable, 1 label-in-edit\n" in stress_test_figures(without)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_run_of_a_kind_that_another_version_made_is_shown_without_its_figures(
    play: Play, more: tuple[str, ...]
) -> None:
    strange = run_answer(kind="time-travel")
    script = play(strange)
    result = run("show", "run-1", *more)
    assert (result.exit_code, len(script.seen)) == (0, 1)
    assert "time-travel" in result.stdout
    assert "knows no kind of run 'time-travel'; update it" in result.stderr


def test_what_a_run_of_such_a_kind_came_to_is_refused_by_its_name(play: Play) -> None:
    ended = run_answer("completed", kind="time-travel")
    play(ended, ended, ok({"kind": "time-travel"}))
    result = run("runs", "wait", "run-1")
    assert "knows no kind of run 'time-travel'; update it" in result.stderr
    assert result.exit_code != 0


def test_a_service_that_is_not_ready_shows_its_reason(play: Play) -> None:
    play(ok({"services": [SERVICE]}))
    assert run("services").stdout.splitlines()[1:] == ["scorer\tnot ready\tloading"]


def test_services_end_with_3_if_none_is_ready_and_name_the_command_that_starts_them(play: Play) -> None:
    play(ok({"services": [SERVICE]}))
    shown = run("services")
    assert shown.exit_code == 3
    assert "counterpose up" in shown.stderr
    play(ok({"services": [SERVICE, SERVICE | {"service": "editor", "ready": True}]}))
    assert run("services").exit_code == 0


def test_a_dry_run_tells_what_can_be_proven_and_starts_nothing(play: Play) -> None:
    script = play(*[ok(an_estimate().model_dump_json())] * 2)
    shown = stress_test("--dry-run", "--limit", "48")
    assert shown.exit_code == 0, shown.stderr
    (asked,) = script.seen
    assert asked.url.path == "/v1/stress-tests/estimate"
    assert json.loads(asked.content)["limit"] == 48
    assert shown.stdout.splitlines() == [
        "48 images: 24 screened, 24 kept for confirmation",
        "at most 384 items, about 12 minutes (9 to 31, by 3 earlier runs)",
        "4 changes tested together, each on at least 7 pairs",
        "bus: a change that fools 85 % of its images is proven with probability 0.75 (8 pairs).",
        "Nothing can be proven on too few images of: tram.",
    ]
    assert json.loads(stress_test("--dry-run", "--json").stdout)["least_pairs"] == 7


@pytest.mark.parametrize(
    "command", [("stress-test", "demo"), ("bug-hunt", "--label", "fly", "--images", "600")]
)
def test_a_dry_run_refuses_a_function_that_cannot_be_imported(play: Play, command: tuple[str, ...]) -> None:
    script = play()
    shown = run(*command, "--classifier", "py:absent_model:predict", "--dry-run")
    assert shown.exit_code == ExitCode.USAGE
    assert "cannot import 'absent_model'" in shown.stderr
    assert not script.seen


def test_classes_of_which_the_same_can_be_proven_share_a_line() -> None:
    classes = [ProvableClass(object_class=f"c{n}", images=24, pairs=9, share=0.8) for n in range(10)]
    some = ProvableClass(object_class="more", images=48, pairs=15, share=0.5)
    assert an_estimate().model_copy(update={"classes": [*classes, some]}).sentences == [
        "more: a change that fools 50 % of its images is proven with probability 0.75 (15 pairs).",
        "c0, c1, c2, c3, c4, c5, c6, c7 and 2 more: a change that fools 80 % of its images is proven with "
        "probability 0.75 (9 pairs).",
    ]


@pytest.mark.parametrize(
    ("images", "ends"), [(12, "error rate."), (6, "error rate. 6 images can show none.")]
)
def test_an_estimate_of_operations_says_that_few_images_can_show_nothing(images: int, ends: str) -> None:
    asked = {"images": images, "operations": 8 * images, "hypotheses": 20, "least_pairs": 10}
    [sentence] = an_estimate().model_copy(update=asked).sentences
    assert sentence.startswith("A loss is shown once 10 images are lost")
    assert sentence.endswith(ends)


def test_a_run_that_can_confirm_nothing_says_so_when_it_starts(play: Play) -> None:
    config = {"confirmation": {"reason": "the largest class has 6 images"}}
    started = a_run("queued").model_copy(update={"resolved_config": config})
    play(ok(started.model_dump_json()), *done()[1:])
    shown = stress_test()
    assert "nothing can be confirmed: the largest class has 6 images" in shown.stderr.splitlines()


def test_the_defaults_of_the_command_are_those_of_the_sdk(play: Play) -> None:
    script = play(*done(), run_answer())
    stress_test()
    with Client() as client:
        client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
    # The SDK leaves out what nobody chose.
    asked = [StressTestCreate.model_validate_json(script.seen[place].content) for place in (0, -1)]
    assert asked[0] == asked[1]
    # The gateway's suite knows its own default.
    assert "preset" not in json.loads(script.seen[0].content)


def test_apply_prints_the_edit_and_the_seed(play: Play) -> None:
    script = play(*applied())
    shown = run("apply", "run-1", "--finding", "1", "--seed", "4")
    assert shown.exit_code == 0
    assert "every image of demo whose caption says “grass”: “grass” becomes “snow”; seed 4" in shown.stderr
    assert json.loads(script.seen[2].content)["seed"] == 4


def test_apply_takes_the_last_run_and_the_finding_s_number_as_prove_does(play: Play) -> None:
    absent = problem(NotFound("run 'run-1' has no finding 2: it has 1"))
    script = play(ok({"runs": [json.loads(a_run("completed", 3).model_dump_json())]}), absent)
    shown = run("apply", "--finding", "2")
    assert shown.exit_code == ExitCode.USAGE
    assert "run 'run-1' has no finding 2: it has 1" in shown.stderr
    assert script.seen[-1].url.path == "/v1/runs/run-1/findings/2"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_command_uses_the_address_and_the_key_of_the_gateway(
    play: Play, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    script = play(ok({"services": []}))
    monkeypatch.setenv("COUNTERPOSE_API_KEY", "a-secret-key")
    monkeypatch.setenv("COUNTERPOSE_URL", "http://elsewhere:9" if how == "variable" else "http://wrong:1")
    run("services", *(["--url", "http://elsewhere:9"] if how == "option" else []))
    assert script.seen[0].url.host == "elsewhere"
    assert script.seen[0].headers["authorization"] == "Bearer a-secret-key"
