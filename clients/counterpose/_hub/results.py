"""A run's figures as a pull request to a model's repository on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterpose._exports import CARD
from counterpose._hub.figures import figures_of
from counterpose._hub.hub import Hub, open_hub
from counterpose._hub.model_card import Evaluation, amended, benchmark_entries
from counterpose._sync.run_handle import RunHandle
from counterpose_core.errors import InvalidRequest, RunNotEnded


def push_results_to_hub(
    run: RunHandle[Any, Any],
    repo_id: str,
    *,
    classifier: str | None = None,
    dataset_repo: str | None = None,
    replace: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Propose a run's figures to the repository of the model that was tested, and return the pull request.

    The pull request changes the model's card: each figure is in its metadata (``model-index``) and in a
    table of its own section, with n and 95 % interval. With ``dataset_repo`` it adds the accuracies as
    ``.eval_results/counterpose-RUN.yaml`` too, which leaderboards of that dataset read.

    Args:
        run: a stress test or a shift benchmark, which has ended.
        repo_id: the model's repository, ``organisation/name``.
        classifier: which of the run's classifiers the repository holds; default: its only one.
        dataset_repo: where the run's export was pushed to (`push_to_hub`).
        replace: propose new numbers for figures that the card has under the same names.
        token: the Hub's; default: ``HF_TOKEN``, or that of ``hf auth login``. The gateway never sees it.
        endpoint: the Hub's address; default: ``HF_ENDPOINT``, else the public one.

    Raises:
        RunNotEnded: the run goes on.
        InvalidRequest: huggingface_hub or the token is missing; the run has no such figures; or the card has
            them already, with these numbers or (without ``replace``) others.
        Unauthorized, Forbidden, NotFound: the Hub does not let the token propose there.
        BackendUnavailable: the Hub does not answer; look for the pull request before you call again.
    """
    if not run.refresh().ended:
        raise RunNotEnded(f"run {run.id!r} is {run.run.state}; wait for it before its figures are proposed")
    summary = run.summary()
    chosen, figures = figures_of(summary, classifier)
    hub = open_hub(token, endpoint, repo_id, *([] if dataset_repo is None else [dataset_repo]))
    evaluation = Evaluation(
        run=run.id,
        kind=run.run.kind,
        classifier=chosen,
        dataset=str(getattr(summary, "dataset", "")),
        dataset_repo=dataset_repo,
        figures=figures,
    )
    doing = (
        f"the pull request to {repo_id!r} on {hub.api.endpoint} is one commit; look for it there before you "
        "call again, as its answer may have been lost. It"
    )
    with hub.speaking(repo_id, doing):
        return _proposed(hub, repo_id, evaluation, replace)


def _proposed(hub: Hub, repo_id: str, evaluation: Evaluation, replace: bool) -> str:
    known = hub.api.model_info(repo_id)
    card = ""
    if any(file.rfilename == CARD for file in known.siblings or ()):
        # Newlines as they are: the pull request shows no line that nobody changed.
        card = Path(hub.api.hf_hub_download(repo_id, CARD, revision=known.sha)).read_bytes().decode()
    changed = amended(hub.package, card, repo_id.rpartition("/")[2], evaluation, replace=replace)
    if changed == card:
        raise InvalidRequest(f"the card of {repo_id!r} has these figures of run {evaluation.run!r} already")
    files = {CARD: changed.encode()}
    if evaluation.dataset_repo is not None:
        name = f".eval_results/counterpose-{evaluation.run[:8]}.yaml"
        files[name] = benchmark_entries(hub.package, evaluation).encode()
    made = hub.api.create_commit(
        repo_id,
        [hub.package.CommitOperationAdd(name, data) for name, data in files.items()],
        commit_message=f"Add evaluation results of Counterpose's run {evaluation.run[:8]}",
        commit_description=evaluation.table(),
        create_pr=True,
        # The card that was read: what others changed since then is not undone.
        parent_commit=known.sha,
    )
    return str(made.pr_url)
