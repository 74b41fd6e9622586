"""A stand-in for the Hugging Face Hub's API, on loopback: what huggingface_hub calls to push and to propose.

It knows repositories, owners, tokens, large files by their digest (the LFS protocol; the Hub's own Xet
storage is not played), commits and pull requests. It is written after huggingface_hub's requests, not after
the Hub's code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LARGE = (".parquet", ".tar", ".png")


@dataclass
class Repository:
    """A repository: its files at the head, and what was proposed."""

    owner: str
    files: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    commits: list[dict[str, Any]] = field(default_factory=list)
    proposed: list[dict[str, bytes]] = field(default_factory=list)

    @property
    def sha(self) -> str:
        """The head, which is another after each commit."""
        return hashlib.sha1(f"{self.owner} {len(self.commits)}".encode()).hexdigest()


@dataclass
class Hub:
    """The Hub's state; ``dies`` says which requests get no answer."""

    tokens: dict[str, str]
    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    uploads: int = 0
    gated: set[str] = field(default_factory=set)
    """Repositories whose licence nobody has accepted."""
    renamed: dict[str, str] = field(default_factory=dict)
    """The new names of repositories that were renamed."""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    dies: Callable[[str, str], bool] = lambda method, path: False


class _Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "", url: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.url = status, code, url


class _Moved(Exception):
    """What was asked for is at another path."""


Answer = tuple[dict[str, Any] | bytes, dict[str, str]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        split = urlsplit(self.path)
        path, query = unquote(split.path), parse_qs(split.query)
        body = self._body()
        self.hub.seen.append((self.command, path, {k.lower(): v for k, v in self.headers.items()}))
        if self.hub.dies(self.command, path):
            self.close_connection = True
            self.connection.shutdown(2)
            return
        try:
            content, headers = self._answer(path, query, body)
            self._send(200, content, headers)
        except _Moved as moved:
            self._send(307, {}, {"Location": str(moved)})
        except _Refusal as refusal:
            headers = {"X-Error-Code": refusal.code} if refusal.code else {}
            self._send(refusal.status, {"error": str(refusal), "url": refusal.url}, headers)

    do_GET = do_POST = do_PUT = do_HEAD = _serve  # noqa: N815 - names of http.server

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        read = b""
        while size := int(self.rfile.readline(), 16):
            read += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return read

    def _send(self, status: int, content: dict[str, Any] | bytes, headers: dict[str, str]) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _user(self) -> str:
        token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if token not in self.hub.tokens:
            raise _Refusal(401, "Invalid credentials in Authorization header")
        return self.hub.tokens[token]

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> Answer:
        if path.startswith("/lfs/"):
            return self._upload(path.removeprefix("/lfs/"), body)
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            return self._resolved(found[1], found[2])
        user = self._user()
        if path == "/api/repos/create":
            return self._create(user, json.loads(body))
        if path == "/api/validate-yaml":
            return self._validate(json.loads(body)["content"])
        if found := re.fullmatch(r"/(datasets/)?(.+)\.git/info/lfs/objects/batch", path):
            self._repository(f"{found[1] or 'models/'}{found[2]}")
            return self._batch(json.loads(body))
        found = re.fullmatch(
            r"/api/((?:datasets|models)/[^/]+/[^/]+)(?:/(revision|preupload|commit)/([^/]+))?", path
        )
        if found is None:
            raise AssertionError(f"the stand-in does not know {self.command} {path}")
        repository, doing = self._repository(found[1]), found[2]
        if doing in (None, "revision"):
            return self._info(found[1], repository)
        proposes = query.get("create_pr") == ["1"]
        if user != repository.owner and not proposes:
            raise _Refusal(403, "Forbidden: you must have write access to the repository")
        if doing == "preupload":
            return self._modes(repository, json.loads(body))
        return self._commit(found[1], repository, body, proposes)

    def _repository(self, name: str) -> Repository:
        if name not in self.hub.repositories:
            raise _Refusal(404, "Repository not found", "RepoNotFound")
        return self.hub.repositories[name]

    def _create(self, user: str, asked: dict[str, Any]) -> Answer:
        owner = asked.get("organization") or user
        name = f"{asked['type']}s/{owner}/{asked['name']}"
        url = f"{self.hub.address}/{name.removeprefix('models/')}"
        if owner != user:
            raise _Refusal(403, f"You don't have the rights to create a {asked['type']} under {owner!r}")
        if name in self.hub.repositories:
            raise _Refusal(409, "You already created this repo", url=url)
        self.hub.repositories[name] = Repository(owner, private=asked.get("visibility") == "private")
        return {"url": url}, {}

    def _validate(self, content: str) -> Answer:
        try:
            _front(content)
        except yaml.YAMLError as error:
            raise _Refusal(400, str(error)) from error
        return {"errors": [], "warnings": []}, {}

    def _info(self, name: str, repository: Repository) -> Answer:
        try:
            front = _front(repository.files.get("README.md", b"").decode())
        except yaml.YAMLError:
            front = None
        siblings = [{"rfilename": path} for path in sorted(repository.files)]
        repo_id = name.partition("/")[2]
        return {"id": repo_id, "sha": repository.sha, "siblings": siblings, "cardData": front}, {}

    def _resolved(self, name: str, file: str) -> Answer:
        """Answer for a file of a model, which anybody may read."""
        if new := self.hub.renamed.get(name):
            raise _Moved(f"/{new}/resolve/main/{file}")
        if name in self.hub.gated:
            raise _Refusal(401, "Access to this model is restricted", "GatedRepo")
        return self._file(self._repository(f"models/{name}"), file)

    def _file(self, repository: Repository, path: str) -> Answer:
        if path not in repository.files:
            raise _Refusal(404, "Entry not found", "EntryNotFound")
        data = repository.files[path]
        etag = f'"{hashlib.sha1(data).hexdigest()}"'
        return data, {"ETag": etag, "X-Repo-Commit": repository.sha}

    def _modes(self, repository: Repository, asked: dict[str, Any]) -> Answer:
        files = []
        for each in asked["files"]:
            is_large = each["path"].endswith(LARGE)
            known = repository.files.get(each["path"])
            oid = None if known is None else _digest(known) if is_large else _blob(known)
            mode = "lfs" if is_large else "regular"
            files.append({"path": each["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": files}, {}

    def _batch(self, asked: dict[str, Any]) -> Answer:
        objects: list[dict[str, Any]] = []
        for each in asked["objects"]:
            href = f"{self.hub.address}/lfs/{each['oid']}"
            needed = {} if each["oid"] in self.hub.large else {"actions": {"upload": {"href": href}}}
            objects.append({"oid": each["oid"], "size": each["size"], **needed})
        return {"objects": objects, "transfer": "basic"}, {"Content-Type": "application/vnd.git-lfs+json"}

    def _upload(self, oid: str, body: bytes) -> Answer:
        assert _digest(body) == oid
        self.hub.large[oid] = body
        self.hub.uploads += 1
        return {}, {}

    def _commit(self, name: str, repository: Repository, body: bytes, proposes: bool) -> Answer:
        files, header = dict(repository.files), {}
        for line in body.splitlines():
            told = json.loads(line)
            value = told["value"]
            match told["key"]:
                case "header":
                    header = value
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.large[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        url = f"{self.hub.address}/{name.removeprefix('models/')}"
        answer = {"commitUrl": f"{url}/commit/{repository.sha}", "commitOid": repository.sha}
        if proposes:
            repository.proposed.append(files)
            answer["pullRequestUrl"] = f"{url}/discussions/{len(repository.proposed)}"
        else:
            repository.files = files
        repository.commits.append(header)
        return answer, {}


def _front(card: str) -> Any:
    """The metadata before a card's text."""
    return yaml.safe_load(card.split("---")[1]) if card.startswith("---") else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def served_hub(**tokens: str) -> Iterator[Hub]:
    """Serve a Hub on loopback; ``tokens`` are those of its users, by user."""
    hub = Hub({token: user for user, token in tokens.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
