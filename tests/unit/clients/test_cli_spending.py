"""Budgets and prices on the command line: what is sent and refused, and what is said of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterpose._cli.follow import failures
from counterpose._cli.spending import read_prices
from counterpose_core.contract.base import Problem
from counterpose_core.contract.spending import Price, Spending, SpendingEstimate, Spent, dollars
from counterpose_core.errors import BudgetSpent, InvalidRequest
from fakes.command import Play, run
from fakes.sdk import a_run, a_summary, an_estimate, ok, problem, run_answer, summary_answer
from fakes.world import fake_dataset

TOML = """
[qwen-image-edit]
usd_per_image = 0.02

["qwen3-vl-8b at language.example"]
usd_per_million_input_tokens = 0.2
usd_per_million_output_tokens = 1
"""
READ = {
    "qwen-image-edit": Price(usd_per_image=0.02),
    "qwen3-vl-8b at language.example": Price(
        usd_per_million_input_tokens=0.2, usd_per_million_output_tokens=1.0
    ),
}


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_prices_are_read_from_toml_and_json(tmp_path: Path) -> None:
    assert read_prices(written(tmp_path, "prices.toml", TOML)) == READ
    told = {name: price.model_dump(exclude_unset=True) for name, price in READ.items()}
    assert read_prices(written(tmp_path, "prices.json", json.dumps(told))) == READ


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.toml", "[a]\nusd_per_image = -1", "a.usd_per_image"),
        ("p.toml", "[a]\nusd_per_image = nan", "a.usd_per_image"),
        ("p.toml", "[a]\nusd_per_picture = 1", "usd_per_picture"),
        ("p.toml", "[a]", "must name what it is for"),
        ("p.toml", "usd_per_image = 0.02", "usd_per_image"),
        ("p.toml", "[a", "it is not TOML"),
        ("p.json", "{", "it is not JSON"),
        ("p.json", "[]", "p.json"),
    ],
)
def test_bad_prices_are_refused_by_their_file_and_field(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_prices(written(tmp_path, name, text))
    assert name in refused.value.detail
    assert says in refused.value.detail


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"'nowhere\.toml' cannot be read: No such file"):
        read_prices("nowhere.toml")


def test_a_stress_test_sends_its_budget_and_prices(play: Play, tmp_path: Path) -> None:
    script = play(run_answer(), run_answer("completed", 3), summary_answer(a_summary()))
    prices = written(tmp_path, "prices.toml", "[m]\nusd_per_call = 0.5")
    run(
        "stress-test", "demo", "--classifier", "timm:resnet50", "--budget-usd", "2.5",
        "--budget-images", "200", "--prices", prices,
    )  # fmt: skip
    sent = json.loads(script.seen[0].content)["spending"]
    assert (sent["usd"], sent["images"], sent["prices"]["m"]["usd_per_call"]) == (2.5, 200, 0.5)


def test_an_adversarial_dataset_sends_its_budget_and_prices(play: Play, tmp_path: Path) -> None:
    script = play(problem(BudgetSpent("stopped")))
    prices = written(tmp_path, "prices.toml", "[m]\nusd_per_image = 0.5")
    words = "adversarial-dataset --caption fly=a-fly --classifier timm:resnet50 --budget-usd 2.5"
    run(*words.split(), "--budget-images", "200", "--prices", prices)
    sent = json.loads(script.seen[0].content)["spending"]
    assert (sent["usd"], sent["images"], sent["prices"]["m"]["usd_per_image"]) == (2.5, 200, 0.5)


def test_each_run_of_compared_editors_has_the_budget_and_the_region(play: Play, tmp_path: Path) -> None:
    offered = ok({"services": [], "presets": ["quick", "direct"]})
    created = a_run().model_copy(update={"resolved_config": {"request": {"preset": "quick"}}})
    free = [ok(an_estimate().model_dump_json())] * 2
    listed = [ok(fake_dataset(4).model_dump_json()), ok({"runs": []})]
    run_of_quick = ok(created.model_dump_json())
    script = play(offered, *free, *listed, run_of_quick, problem(BudgetSpent("stopped")))
    prices = written(tmp_path, "prices.toml", "[m]\nusd_per_call = 0.5")
    words = "compare-editors demo --classifier timm:resnet50 --preset quick --preset direct --budget-usd 2.5"
    run(*words.split(), "--budget-images", "200", "--prices", prices, "--region", "words")
    sent = [request for request in script.seen if request.method == "POST"]
    assert [request.url.path.rpartition("/")[2] for request in sent] == ["estimate"] * 2 + [
        "stress-tests"
    ] * 2
    asked = [json.loads(request.content) for request in sent]
    assert [each["preset"] for each in asked] == ["quick", "direct"] * 2
    assert all(not each["classifiers"] and each["outside_suite"] == "continue" for each in asked[:2])
    for each in asked:
        sent = each["spending"]
        assert (sent["usd"], sent["images"], sent["prices"]["m"]["usd_per_call"]) == (2.5, 200, 0.5)
        assert each["region"] == "words"


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--budget-usd", "-1", "more than 0"),
        ("--budget-images", "0", "more than 0"),
        ("--budget-usd", "nan", ""),
    ],
)
def test_a_budget_below_zero_is_refused_before_anything_is_sent(
    play: Play, option: str, value: str, says: str
) -> None:
    script = play()
    shown = run("stress-test", "demo", "--classifier", "timm:resnet50", option, value)
    assert shown.exit_code
    assert says in shown.stderr
    assert script.seen == []


def test_a_run_is_resumed_with_a_larger_budget(play: Play) -> None:
    script = play(run_answer(), run_answer("queued"))
    run("runs", "resume", "run-1", "--budget-images", "400")
    assert json.loads(script.seen[-1].content)["spending"] == {"images": 400}


def test_what_a_run_spent_is_said_in_sentences() -> None:
    told = Spending(
        services={"captioner": Spent(calls=2, output_tokens=9), "editor": Spent(calls=3, images=3)},
        unanswered=Spent(calls=1, images=1),
        usd=1.5,
        unpriced=["a at b"],
        unused_prices=["c"],
        stopped="stopped at its budget of 3 images; 1 of 2 source images are not tested in full",
    )
    assert told.lines == [
        "stopped at its budget of 3 images; 1 of 2 source images are not tested in full",
        "servers of others: 5 calls, 3 images, 0 tokens sent and 9 answered: $1.50, of which up to 1 call, "
        "1 image, 0 tokens sent and 0 answered were never answered",
        "no price for 'a at b'",
        "the price of 'c' is unused: no service calls such a model, or a more exact price is used",
    ]
    estimate = SpendingEstimate(services={"editor": Spent(calls=1, images=1)}, usd=0.004)
    assert estimate.lines == [
        "the editor asks its server at most for 1 call, 1 image and 0 tokens of answers",
        "at most $0.004, without the tokens that are sent",
    ]


def test_the_summary_in_the_terminal_says_what_was_spent(play: Play) -> None:
    spending = Spending(
        services={"editor": Spent(calls=3, images=3)}, stopped="stopped at its budget of 3 images"
    )
    play(run_answer("completed", 3), summary_answer(a_summary().model_copy(update={"spending": spending})))
    shown = run("show", "run-1").stdout
    assert "stopped at its budget of 3 images\nservers of others: 3 calls, 3 images" in shown


def test_a_run_that_stopped_says_so_in_place_of_its_failures() -> None:
    stopped = BudgetSpent("stopped at its budget of 3 images; resume it with a larger one")
    ended = a_run("failed", 3).model_copy(update={"problem": Problem.of(stopped)})
    failed = a_summary().model_copy(update={"failed_codes": {"budget-spent": 4}})
    assert failures(ended, failed) == stopped.detail


def test_small_amounts_keep_two_digits() -> None:
    assert [dollars(usd) for usd in (0.0, 0.00123, 0.099, 0.1, 1234.5)] == [
        "$0.00", "$0.0012", "$0.099", "$0.10", "$1,234.50",
    ]  # fmt: skip


def test_usd_adds_up_all_that_is_priced() -> None:
    price = Price(
        usd_per_call=1.0,
        usd_per_image=0.5,
        usd_per_million_input_tokens=2.0,
        usd_per_million_output_tokens=8.0,
    )
    spent = Spent(calls=2, images=3, input_tokens=500_000, output_tokens=250_000)
    assert (spent.usd(price), spent.usd(None)) == (2.0 + 1.5 + 1.0 + 2.0, 0.0)
