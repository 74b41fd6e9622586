"""Exports and figures on the Hugging Face Hub, whose API a stand-in on loopback plays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import yaml

from counterpose import push_results_to_hub, push_to_hub
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    Forbidden,
    InvalidRequest,
    NotFound,
    RunNotEnded,
    Unauthorized,
)
from counterpose_gateway.exports.export import write_export
from fakes.archives import FILES, archive, export_answer
from fakes.command import Play, run
from fakes.exports import CARD, records
from fakes.hub import Hub, Repository, served_hub
from fakes.sdk import Session, a_summary, figure, run_answer, summary_answer
from fakes.store import FakeStore

# huggingface_hub 2.4 sends files by a way of httpx2 that goes.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

KEY, TOKEN = "key-of-the-gateway", "hf_of_ada"
MINE, THEIRS = "ada/plates", "eve/plates"
MODEL = "models/eve/net"
PARQUET = "data/train-00000-of-00001.parquet"
FRONT = "---\nlicense: mit\nlibrary_name: timm\n---\n# Net\n\nA classifier of plates.\n"


@pytest.fixture(autouse=True)
def _no_account_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    # The stand-in has the LFS protocol alone.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    # Its client pauses between tries.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A Hub with two users, and a model of the second."""
    with served_hub(ada=TOKEN, eve="hf_of_eve") as served:
        served.repositories[MODEL] = Repository(
            "eve", {"README.md": FRONT.encode(), "model.safetensors": b"w"}
        )
        yield served


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export as parquet."""
    store = FakeStore()
    folder = tmp_path_factory.mktemp("export") / "out"
    write_export(records(store)[:4], folder, layout="parquet", store=store, card=CARD)
    return folder


def pushing(hub: Hub, source: Any, repo_id: str = MINE, **options: Any) -> str:
    """Push to the stand-in."""
    return push_to_hub(source, repo_id, endpoint=hub.address, **options)


def a_stress_test(*answers: Any, state: Any = "completed") -> tuple[Session, Any]:
    """The handle of a stress test, of which a gateway tells what follows."""
    session = Session("sync", run_answer(state, 3), *answers)
    return session, session(lambda client: client.stress_tests.get("run-1"))


def proposing(hub: Hub, *, again: int = 0, repo_id: str = "eve/net", **options: Any) -> str:
    """Propose the figures of a run with two classifiers."""
    summary = a_summary(net=figure(0.2 + again / 10, 0.1, 0.4), other=figure(0.0, -0.1, 0.1))
    _, made = a_stress_test(run_answer("completed", 3), summary_answer(summary))
    return push_results_to_hub(made, repo_id, endpoint=hub.address, **({"classifier": "net"} | options))


def test_an_export_is_one_commit_of_a_private_repository(hub: Hub, export: Path) -> None:
    assert pushing(hub, export).startswith(f"{hub.address}/datasets/{MINE}/commit/")
    made = hub.repositories[f"datasets/{MINE}"]
    assert made.files == {name: (export / name).read_bytes() for name in ("README.md", PARQUET)}
    assert made.private
    assert len(made.commits) == 1
    assert hub.uploads == 1


def test_the_same_export_pushes_nothing_and_another_leaves_no_old_shard(hub: Hub, export: Path) -> None:
    pushing(hub, export)
    made = hub.repositories[f"datasets/{MINE}"]
    pushing(hub, export)
    assert (len(made.commits), hub.uploads) == (1, 1)
    made.files["data/train-00001-of-00002.parquet"] = b"of an earlier export"
    made.files["notes.md"] = b"of the owner"
    pushing(hub, export)
    assert sorted(made.files) == ["README.md", PARQUET, "notes.md"]


def test_a_run_is_exported_for_the_push(hub: Hub) -> None:
    data = archive({PARQUET: b"PAR1", **FILES})
    session, made = a_stress_test(export_answer(data))
    pushing(hub, made, dropped=True)
    assert hub.repositories[f"datasets/{MINE}"].files[PARQUET] == b"PAR1"
    assert dict(session.seen[1].url.params) == {"layout": "parquet", "dropped": "true"}


def test_a_pull_request_is_proposed_to_a_dataset_of_others(hub: Hub, export: Path) -> None:
    theirs = hub.repositories[f"datasets/{THEIRS}"] = Repository("eve", {"README.md": b"# Plates\n"})
    assert pushing(hub, export, THEIRS, create_pr=True) == f"{hub.address}/datasets/{THEIRS}/discussions/1"
    assert theirs.files == {"README.md": b"# Plates\n"}
    assert PARQUET in theirs.proposed[0]


@pytest.mark.parametrize(
    ("told", "error", "what"),
    [
        ({"token": "hf_wrong"}, Unauthorized, "does not know the token"),
        ({"repo_id": THEIRS}, Forbidden, f"may not write to '{THEIRS}'"),
        ({"repo_id": "eve/new"}, Forbidden, "may not write to 'eve/new'"),
        ({"repo_id": "plates"}, InvalidRequest, "name its owner too"),
        ({"repo_id": "eve/none", "create_pr": True}, NotFound, "no repository 'eve/none'"),
    ],
)
def test_what_the_hub_refuses_says_what_to_do(
    hub: Hub, export: Path, told: dict[str, Any], error: type[CounterposeError], what: str
) -> None:
    hub.repositories[f"datasets/{THEIRS}"] = Repository("eve")
    with pytest.raises(error, match=what) as caught:
        pushing(hub, export, **told)
    assert TOKEN not in str(caught.value)
    assert not hub.large


def test_without_a_token_nothing_is_asked(hub: Hub, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(InvalidRequest, match="set HF_TOKEN"):
        pushing(hub, export)
    assert not hub.seen


def test_without_the_package_the_extra_is_named(
    hub: Hub, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InvalidRequest, match=r"pip install 'counterpose\[hub\]'"):
        pushing(hub, export)


def test_a_dataset_that_is_not_ours_is_replaced_on_request_only(hub: Hub, export: Path) -> None:
    mine = hub.repositories[f"datasets/{MINE}"] = Repository(
        "ada", {"README.md": b"---\ntags: [pets]\n---\n"}
    )
    with pytest.raises(InvalidRequest, match="not an export of Counterpose"):
        pushing(hub, export)
    assert PARQUET not in mine.files
    pushing(hub, export, replace=True)
    assert PARQUET in mine.files


def test_a_folder_that_is_no_export_is_refused(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"no complete export: it has no README\.md"):
        pushing(hub, tmp_path)


@pytest.mark.parametrize("at", ["/lfs/", "/commit/"])
def test_a_push_that_dies_shows_nothing_and_goes_on_where_it_stopped(hub: Hub, export: Path, at: str) -> None:
    hub.dies = lambda _, path: at in path
    with pytest.raises(BackendUnavailable, match="push again, what was uploaded is not sent twice"):
        pushing(hub, export)
    made = hub.repositories[f"datasets/{MINE}"]
    assert (made.files, hub.uploads) == ({}, 0 if at == "/lfs/" else 1)
    hub.dies = lambda *_: False
    pushing(hub, export)
    assert set(made.files) == {"README.md", PARQUET}
    assert hub.uploads == 1


def test_figures_are_proposed_with_interval_and_n(hub: Hub) -> None:
    url = proposing(hub, dataset_repo=MINE)
    assert url == f"{hub.address}/eve/net/discussions/1"
    model = hub.repositories[MODEL]
    assert model.files["README.md"] == FRONT.encode()
    [proposed] = model.proposed
    card = huggingface_hub.ModelCard(proposed["README.md"].decode())
    assert (card.data.license, card.data.library_name) == ("mit", "timm")
    drop = next(each for each in card.data.eval_results or [] if each.metric_type == "accuracy_drop")
    assert (drop.metric_value, drop.dataset_type) == (0.2, MINE)
    assert drop.metric_args == {"n": 39, "low": 0.1, "high": 0.4, "run": "run-1"}
    assert "| Drop of accuracy, paired by source image | 0.200 | 0.100 to 0.400 | 39 |" in card.text
    assert "A classifier of plates." in card.text
    told = yaml.safe_load(proposed[".eval_results/counterpose-run-1.yaml"])
    [first, _] = huggingface_hub.parse_eval_result_entries(told)
    assert (first.dataset_id, first.value) == (MINE, 0.9)
    assert first.notes is not None
    assert "n=39, 95 % interval 0.800 to 0.950" in first.notes


def test_a_card_with_the_figure_is_changed_on_request_only(hub: Hub) -> None:
    model = hub.repositories[MODEL]
    proposing(hub)
    model.files = model.proposed[0]
    with pytest.raises(InvalidRequest, match="has these figures of run 'run-1' already"):
        proposing(hub)
    with pytest.raises(InvalidRequest, match=r"as 0\.2, and the run found 0\.3: give replace=True"):
        proposing(hub, again=1)
    proposing(hub, again=1, replace=True)
    text = model.proposed[-1]["README.md"].decode()
    assert (text.count("<!-- counterpose end -->"), text.count("metric"), "0.300" in text) == (1, 1, True)
    assert "0.200" not in text


def test_what_cannot_be_proposed_is_refused_before_the_hub_is_asked(hub: Hub) -> None:
    with pytest.raises(InvalidRequest, match="name the repository's: 'net', 'other'"):
        proposing(hub, classifier=None)
    with pytest.raises(InvalidRequest, match="no classifier 'nothing'"):
        proposing(hub, classifier="nothing")
    _, going = a_stress_test(run_answer("in_progress", 1), state="in_progress")
    with pytest.raises(RunNotEnded, match="wait for it"):
        push_results_to_hub(going, "eve/net", endpoint=hub.address)
    assert not hub.seen


def test_a_card_that_cannot_be_read_is_left_as_it_is(hub: Hub) -> None:
    model = hub.repositories[MODEL]
    model.files["README.md"] = b"---\nmodel-index: [{]\n---\n"
    with pytest.raises(InvalidRequest, match="mend the card first"):
        proposing(hub)
    assert not model.proposed


def test_a_name_cannot_break_out_of_the_card(hub: Hub) -> None:
    summary = a_summary(**{"oip:http://x/|--><script>": figure()})
    _, made = a_stress_test(run_answer("completed", 3), summary_answer(summary))
    push_results_to_hub(made, "eve/net", endpoint=hub.address)
    assert r"oip:http://x/\|--\>\<script\>" in hub.repositories[MODEL].proposed[0]["README.md"].decode()


def test_the_commands_push_and_propose_and_each_side_sees_its_own_secret_alone(
    hub: Hub, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As HF_ENDPOINT does, which it reads when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
    files = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", files)
    monkeypatch.setenv("COUNTERPOSE_API_KEY", KEY)
    script = play(run_answer("completed", 3), export_answer())
    done = run("push", "dataset", "run-1", MINE, "--public")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{hub.address}/datasets/{MINE}/commit/")
    assert not hub.repositories[f"datasets/{MINE}"].private
    to_gateway = [str(each.headers.raw) for each in script.seen]
    to_hub = [str(headers) for _, _, headers in hub.seen]
    assert all(KEY in each and TOKEN not in each for each in to_gateway)
    assert any(TOKEN in each for each in to_hub)
    assert not any(KEY in each for each in to_hub)
    play(run_answer("completed", 3), run_answer("completed", 3), summary_answer(a_summary(net=figure())))
    done = run("push", "results", "run-1", "eve/net", "--json")
    assert done.exit_code == 0, done.output
    assert done.stdout == f'{{"pull_request": "{hub.address}/eve/net/discussions/1"}}\n'
