"""What every part of a model suite has: strict fields, and where its models are published."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from counterpose_core.text_form import TextForm

_Repository = Annotated[
    str,
    Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*\z"),
    TextForm("must be a repository of the Hugging Face hub, as owner/name"),
]
_Revision = Annotated[
    str,
    Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\z"),
    TextForm("must be a commit, a tag or a branch: letters, digits, dots, dashes and underscores"),
]
_Variant = Annotated[
    str,
    Field(pattern=r"\A[a-z0-9_]+\z"),
    TextForm("must be a copy's name, such as fp16: small letters, digits and underscores"),
]


class SuitePart(BaseModel):
    """A section of a suite's file."""

    # A misspelt setting must not silently leave the default in force.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PublishedModel(SuitePart):
    """Where a model of a suite is published: a repository of the Hugging Face hub.

    ``mirror`` is a repository with the same files, searched after the first and named where that has left the
    hub (``gone``). ``revision`` is a commit, tag or branch, of the repository alone; by default, the one that
    was downloaded last. ``variant`` names the copy of the weights to download, such as ``fp16`` for
    ``model.fp16.safetensors``. ``licence`` is the name that the repository gives; a model is ``gated`` if the
    hub gives it only to those who accept the licence.
    """

    repository: _Repository
    revision: _Revision | None = None
    mirror: _Repository | None = None
    variant: _Variant | None = None
    gone: bool = False
    gated: bool = False
    licence: str | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> PublishedModel:
        if self.gone and self.mirror is None:
            raise ValueError(f"the repository {self.repository!r} is gone, but has no mirror; name one")
        return self


class ModelSuite(SuitePart):
    """A service's part; ``published`` says where its models are published, by their names in it."""

    published: dict[str, PublishedModel] = {}
