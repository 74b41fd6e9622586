"""An export as a dataset on the Hub: shards and card in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from counterpose._exports import CARD, ExportLayout
from counterpose._hub.hub import Hub, check_repository, open_hub
from counterpose._sync.run_handle import ExportedRun
from counterpose_core.errors import InvalidRequest

TAG = "counterpose"
"""The card of each export has this tag; a dataset without it is not ours to replace."""
SHARDED: tuple[ExportLayout, ...] = ("parquet", "webdataset")
"""Layouts that the Hub takes: a repository holds thousands of files badly."""
MOST_FILES = 10_000
_DATA = "data/"


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
    hub = open_hub(token, endpoint)
    check_repository(repo_id)
    with _folder(source, layout, dropped) as folder:
        files = _files(folder)
        doing = (
            f"the push of {len(files)} files to {repo_id!r} on {hub.address} is one commit, so all of it is "
            "there or nothing; push again, what was uploaded is not sent twice. It"
        )
        with hub.speaking(repo_id, doing):
            if not create_pr and not hub.api.repo_exists(repo_id, repo_type="dataset"):
                hub.api.create_repo(repo_id, repo_type="dataset", private=private)
            stale = _stale(hub, repo_id, files, replace or create_pr)
            pushed = _commit(hub, repo_id, files, stale, create_pr=create_pr)
    return str(pushed.pr_url or pushed.commit_url)


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


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of an export by their names in the repository.

    Raises:
        InvalidRequest: the folder is no complete export, or has too many files.
    """
    if not (folder / CARD).is_file():
        raise InvalidRequest(f"{str(folder)!r} is no complete export: it has no {CARD}")
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    if len(found) > MOST_FILES:
        raise InvalidRequest(
            f"{str(folder)!r} has {len(found)} files, more than {MOST_FILES}: export it as parquet"
        )
    return {path.relative_to(folder).as_posix(): path for path in found}


def _stale(hub: Hub, repo_id: str, files: dict[str, Path], may_replace: bool) -> list[str]:
    """Return the shards of an earlier export that this one does not replace by name.

    Raises:
        InvalidRequest: the repository holds a dataset that is no export of Counterpose.
    """
    known = hub.api.dataset_info(repo_id)
    present = [each.rfilename for each in known.siblings or ()]
    tags = (known.card_data.to_dict() if known.card_data is not None else {}).get("tags") or ()
    if CARD in present and TAG not in tags and not may_replace:
        raise InvalidRequest(
            f"{repo_id!r} holds a dataset with a card that is not an export of Counterpose: name another "
            "repository, or give replace=True to put this one in its place"
        )
    return [name for name in present if name.startswith(_DATA) and name not in files]


def _commit(hub: Hub, repo_id: str, files: dict[str, Path], stale: list[str], *, create_pr: bool) -> Any:
    operations = [
        *(hub.package.CommitOperationAdd(name, str(path)) for name, path in files.items()),
        *(hub.package.CommitOperationDelete(name) for name in stale),
    ]
    return hub.api.create_commit(
        repo_id,
        operations,
        commit_message="Push an export of Counterpose",
        repo_type="dataset",
        create_pr=create_pr,
    )
