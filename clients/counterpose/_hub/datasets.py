"""An export as a dataset on the Hub: shards and card in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from counterpose._exports import CARD, ExportLayout
from counterpose._hub.hub import Hub, open_hub
from counterpose._sync.run_handle import ExportedRun
from counterpose_core.errors import InvalidRequest

TAG = "counterpose"
"""The card of each export has this tag; a dataset without it is not ours to replace."""
SHARDED: tuple[ExportLayout, ...] = ("parquet", "webdataset")
"""Layouts that the Hub takes: a repository holds thousands of files badly."""


def push_to_hub(
    source: ExportedRun[Any, Any] | str | Path,
    repo_id: str,
    *,
    layout: ExportLayout = "parquet",
    dropped: bool = False,
    private: bool = True,
    create_pr: bool = False,
    replace: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Push an export to a dataset repository of the Hugging Face Hub, and return the commit's address.

    All files go in one commit, so readers see the old dataset or the new one whole. Equal exports push
    nothing, and what was uploaded before a push broke off is not uploaded again.

    Args:
        source: a run with images, which is exported for this, or the folder of an export.
        repo_id: ``organisation/name``; created if there is none.
        layout: of a run's export, ``parquet`` (which the Hub's viewer shows) or ``webdataset``.
        dropped: of a run, also the images that a filter dropped.
        private: whether a repository that is created here is private.
        create_pr: propose the files as a pull request, and return its address; for a repository of others.
        replace: replace a dataset that is no export of Counterpose.
        token: the Hub's; default: ``HF_TOKEN``, or that of ``hf auth login``. The gateway never sees it.
        endpoint: the Hub's address; default: ``HF_ENDPOINT``, else the public one.

    Raises:
        InvalidRequest: huggingface_hub or the token is missing, the folder is no export, or the repository
            holds another dataset.
        DatasetEmpty: no image was kept.
        Unauthorized, Forbidden, NotFound: the Hub does not let the token write there.
        BackendUnavailable: the Hub does not answer; push again.
    """
    hub = open_hub(token, endpoint, repo_id)
    with _folder(source, layout, dropped) as folder:
        files = _files(folder)
        doing = (
            f"the push of {len(files)} files to {repo_id!r} on {hub.api.endpoint} is one commit, so all of "
            "it is there or nothing; push again, what was uploaded is not sent twice. It"
        )
        with hub.speaking(repo_id, doing):
            if not create_pr and not hub.api.repo_exists(repo_id, repo_type="dataset"):
                hub.api.create_repo(repo_id, repo_type="dataset", private=private)
            stale = _stale(hub, repo_id, replace or create_pr) - files.keys()
            # Not upload_folder, which makes several commits of a large folder.
            pushed = hub.api.create_commit(
                repo_id,
                [
                    *(hub.package.CommitOperationAdd(name, path) for name, path in files.items()),
                    *(hub.package.CommitOperationDelete(name) for name in sorted(stale)),
                ],
                commit_message="Push an export of Counterpose",
                repo_type="dataset",
                create_pr=create_pr,
            )
    return str(pushed.pr_url or pushed.commit_url)


def _files(folder: Path) -> dict[str, Path]:
    if not (folder / CARD).is_file():
        raise InvalidRequest(f"{str(folder)!r} is no complete export: it has no {CARD}")
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def _folder(
    source: ExportedRun[Any, Any] | str | Path, layout: ExportLayout, dropped: bool
) -> Iterator[Path]:
    if not isinstance(source, ExportedRun):
        yield Path(source)
        return
    if layout not in SHARDED:
        raise InvalidRequest(f"the Hub takes the layouts {' and '.join(SHARDED)}, not {layout!r}")
    with TemporaryDirectory(prefix="counterpose-push-") as place:
        yield source.export(Path(place) / "export", layout=layout, dropped=dropped)


def _stale(hub: Hub, repo_id: str, may_replace: bool) -> set[str]:
    """Return the shards of an earlier export.

    Raises:
        InvalidRequest: the repository holds a dataset that is no export of Counterpose.
    """
    known = hub.api.dataset_info(repo_id)
    present = {file.rfilename for file in known.siblings or ()}
    tags = known.card_data.tags if known.card_data is not None else None
    if CARD in present and TAG not in (tags or ()) and not may_replace:
        raise InvalidRequest(
            f"{repo_id!r} holds a dataset with a card that is not an export of Counterpose: name another "
            "repository, or give replace=True to put this one in its place"
        )
    return {name for name in present if name.startswith("data/")}
