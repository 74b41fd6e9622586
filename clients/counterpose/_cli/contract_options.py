"""Options that set fields of a request: what they say, take and default to is the contract's."""

from __future__ import annotations

import copy
import inspect
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import OptionInfo

from counterpose._cli.follow import Output
from counterpose._cli.options import AsJson, Detach, Report, Url, read_label_map, read_task
from counterpose._cli.terminal import connected
from counterpose_core.errors import InvalidRequest
from counterpose_core.field_descriptions import field_description

Fields = dict[str, Any]
"""The fields of a request that the options of a command set, by name."""

THE_CONTRACTS = object()


@dataclass(frozen=True)
class Option:
    """An option that sets a field.

    Args:
        field: the field; ``budget.images`` is a field of a field.
        metavar: what stands for a value in the help.
        flag: default: the field's name.
        more: what the help says behind the contract's description, such as how a value is written.
        says: what it says in place of that description, of an option that is written otherwise.
        read: turns what was given into the field's value.
        default: default: the field's own.
        once: whether a field of several values is given as one text, which ``read`` turns into them.
        panel: under which heading the help lists it; the command's other options then have one, too.
        complete: what the shell offers for its value.
    """

    field: str
    metavar: str = ""
    flag: str = ""
    more: str = ""
    says: str = ""
    read: Callable[[Any], Any] | None = None
    default: Any = THE_CONTRACTS
    once: bool = False
    panel: str = ""
    complete: Callable[[typer.Context, str], list[tuple[str, str]]] | None = None


class _FieldOption:
    """An option for typer, of a field of ``body``."""

    def __init__(self, sets: Option, body: type[BaseModel]) -> None:
        *outer, self._last = sets.field.split(".")
        for name in outer:
            body = _plain(body.model_fields[name].annotation)
        self._outer, self._sets = outer, sets
        self._field: FieldInfo = body.model_fields[self._last]
        self._means = field_description(body, self._last)
        self._kind = _plain(self._field.annotation)
        self.name = sets.field.replace(".", "_")
        self._word = sets.flag or f"--{self._last.replace('_', '-')}"

    @cached_property
    def _choices(self) -> tuple[str, ...]:
        of = _plain(get_args(self._kind)[0]) if get_origin(self._kind) is list else self._kind
        return get_args(of) if get_origin(of) is Literal else ()

    def parameter(self) -> inspect.Parameter:
        """Return the parameter that typer makes the option of."""
        default, kind = self._default(), self._taken()
        is_switch = kind is bool
        words = f"{self._word}/--no-{self._word[2:]}" if is_switch and default else self._word
        option = typer.Option(
            words,
            metavar=self._sets.metavar,
            help=self._help(),
            rich_help_panel=self._sets.panel or None,
            autocompletion=self._sets.complete,
        )
        optional = kind if default is not None else kind | None
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[optional, option]
        )

    def put(self, given: Any, fields: Fields) -> None:
        """Put what was given, or the field's default, among the fields of a request.

        A field of a field is left out if nothing was given: its body has the default.

        Raises:
            InvalidRequest: it is none of the values that the contract lists, or beyond its bounds.
        """
        if given in (None, []):
            if self._outer:
                return
            given = None if self._field.is_required() else self._field.get_default(call_default_factory=True)
        elif self._sets.read is not None:
            given = self._sets.read(given)
        elif self._kind in (int, float):
            self._require_within(given)
        elif self._choices:
            self._require_known(given)
        for name in self._outer:
            fields = fields.setdefault(name, {})
        fields[self._last] = given

    def _require_known(self, given: str | Sequence[str]) -> None:
        for value in [given] if isinstance(given, str) else given:
            if value not in self._choices:
                what = self._word[2:].replace("-", " ")
                raise InvalidRequest(f"unknown {what} {value!r}: choose from {', '.join(self._choices)}")

    def _require_within(self, given: float) -> None:
        for name, (words, holds) in _BOUNDS.items():
            bound = self._bound(name)
            if bound is not None and not holds(given, bound):
                number = str(given).removesuffix(".0")
                share = self._sets.metavar == "SHARE" and 1.0 < given <= 100.0
                written = f"; {given:g} % is written {given / 100:g}" if share else ""
                raise InvalidRequest(f"{self._word} {number}: must be {words} {bound:,}{written}")

    def _taken(self) -> Any:
        if self._sets.once:
            return str
        if get_origin(self._kind) is dict:
            return list[str]
        if get_origin(self._kind) is list:
            of = _plain(get_args(self._kind)[0])
            return list[of if of in (int, float) else str]  # type: ignore[misc]  # read by typer
        return self._kind if self._kind in (int, float, bool) else str

    def _default(self) -> Any:
        if self._sets.default is not THE_CONTRACTS:
            return self._sets.default
        if self._field.is_required():
            return inspect.Parameter.empty
        default = self._field.get_default(call_default_factory=True)
        is_one = get_origin(self._taken()) is not list and isinstance(default, str | int | float)
        return default if is_one else None

    def _help(self) -> str:
        # An option that is left out is the contract's null, and fields are options here.
        text = re.sub(r"(?:,? or|;) null for ", "; default: ", self._sets.says or self._means)
        text = re.sub(r"\bnull (?=to|if)", "left out ", text)
        text = re.sub(r"`(\w+_\w+)`", lambda field: f"--{field[1].replace('_', '-')}", text)
        said = [text.rstrip("."), self._sets.more]
        if any(choice not in text for choice in self._choices):
            said.append(f"One of {', '.join(self._choices)}")
        lowest, highest = (self._bound(name) for name in ("ge", "le"))
        if lowest is not None and highest is not None:
            said.append(f"From {lowest:,} to {highest:,}")
        if get_origin(self._taken()) is list:
            said.append("Repeatable")
        return ". ".join(filter(None, said)) + "."

    def _bound(self, name: str) -> float | None:
        return next((getattr(each, name) for each in self._field.metadata if hasattr(each, name)), None)


_BOUNDS = {
    "ge": ("at least", operator.ge),
    "gt": ("more than", operator.gt),
    "le": ("at most", operator.le),
    "lt": ("less than", operator.lt),
}
"""What a field may be bounded by, in words."""


def _plain(annotation: Any) -> Any:
    """Return a type without what is annotated, the first of several, and not ``None``."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _plain(next(each for each in get_args(annotation) if each is not NoneType))
    return annotation


SEED = Option("seed", "N", default=0)
"""A default as the SDK has it: a first try need not choose a seed."""
STEPS = Option("steps", "N")
LABEL_MAP = Option(
    "label_map", "FILE", more="A JSON file of such an object, or the object", read=read_label_map, once=True
)
TASK = Option(
    "task",
    "TASK",
    more="A JSON file of its settings, the object, or its name alone",
    read=read_task,
    once=True,
)

Command = Callable[..., None]

_OF_OUTPUT = {"report": (Report, None), "detach": (Detach, False), "as_json": (AsJson, False)}
_OF_CLIENT = {"url": (Url, None)}
RUN, EDITS, SEARCH, STATISTICS, OUTPUT = "Run", "Edits", "Search", "Statistics", "Output"
"""Headings of a long help."""
_PANELS = dict.fromkeys((*_OF_OUTPUT, "junit"), OUTPUT) | dict.fromkeys(
    ("threshold", "max_drop", "strict", "mixture", "mixture_images"), STATISTICS
)
"""The headings of options that are not a request's; that of all others is `RUN`."""


def request_options(body: type[BaseModel], *options: Option) -> Callable[[Command], Command]:
    """Give a command the options of a request.

    The command may take ``fields``, which ``options`` set; the ``output`` of a run, which ``--report``,
    ``--detach`` and ``--json`` say; and a ``client``, which ``--url`` says and which is open while it runs.
    The options stand in the help where these parameters stand.

    Args:
        body: the request.
        options: the options, in the order of the help.
    """
    field_options = [_FieldOption(each, body) for each in options]
    expanded = {
        "fields": [option.parameter() for option in field_options],
        "output": list(starmap(_parameter, _OF_OUTPUT.items())),
        "client": list(starmap(_parameter, _OF_CLIENT.items())),
    }

    def decorate(command: Command) -> Command:
        signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)

        def called(**given: Any) -> None:
            with connected(given.pop("url")) as client:
                if "output" in signature.parameters:
                    given["output"] = Output(**{name: given.pop(name) for name in _OF_OUTPUT})
                fields: Fields = {}
                for option in field_options:
                    option.put(given.pop(option.name), fields)
                if field_options:
                    given["fields"] = fields
                command(client=client, **given)

        parameters = list[inspect.Parameter]()
        for name, each in signature.parameters.items():
            own = each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            parameters += expanded.get(name, [own])
        if any(each.panel for each in options):
            parameters = [_under_heading(each) for each in parameters]
        called.__doc__ = command.__doc__
        called.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]  # read by typer
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _parameter(name: str, option: tuple[Any, Any]) -> inspect.Parameter:
    annotation, default = option
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _under_heading(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return an option of a command whose help has headings, under one of them."""
    kind, told = get_args(parameter.annotation)
    if not isinstance(told, OptionInfo) or told.rich_help_panel:
        return parameter
    # Other commands share what is told of it.
    option = copy.copy(told)
    option.rich_help_panel = _PANELS.get(parameter.name, RUN)
    return parameter.replace(annotation=Annotated[kind, option])
