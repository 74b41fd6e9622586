"""Options of requests, each named, typed and documented once; verbs take them as keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from counterpose_core.contract.failure_criteria import Criterion

F = TypeVar("F", bound=Callable[..., Any])


class LabelImageOptions(TypedDict, total=False):
    """Options of runs that generate images of labels.

    classes: among which the classifiers choose; default: those that all of them have.
    parents: the parent of a class, such as "insect" for "fly", for the prompt and ``no-relative``.
    criterion: what counts as a failure, such as ``{"name": "not-in-top", "k": 3}``; default: the first
        answer is not the label.
    prompt: the prompt of the label alone, with ``<class>``; default: the suite's.
    steps: denoising steps; default: the suite's.
    guidance: guidance scale; default: the suite's.
    scheduler: diffusion scheduler; default: the suite's.
    """

    classes: Sequence[str] | None
    parents: Mapping[str, str] | None
    criterion: Criterion | Mapping[str, Any] | None
    prompt: str | None
    steps: int | None
    guidance: float | None
    scheduler: str | None


def chosen(options: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    """Return the options that were given and are not None, as a request's body takes them.

    Args:
        options: what a verb was called with.
        known: the typed dictionary of its options.

    Raises:
        TypeError: the verb has no such option, as if it named each in its signature.
    """
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise TypeError(f"create() got an unexpected keyword argument {unknown[0]!r}")
    return {name: _plain(value) for name, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return list(value) if is_list else value


def spells_out(body: type[BaseModel], *options: type[Any]) -> Callable[[F], F]:
    """Let ``help()``, notebooks and ``inspect`` show each option of a verb that takes them as ``**options``.

    Args:
        body: the request's body, which has the defaults.
        options: the typed dictionary of the options, and those that it extends.
    """

    def spell_out(verb: F) -> F:
        told = inspect.signature(verb)
        named = [each for each in told.parameters.values() if each.kind is not each.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default(body, name),
                annotation=annotation.__forward_arg__,
            )
            for name, annotation in options[0].__annotations__.items()
        ]
        lines = "\n".join(inspect.cleandoc(each.__doc__ or "").partition("\n\n")[2] for each in options)
        verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\nOptions:\n{indent(lines, '    ')}\n"
        verb.__signature__ = told.replace(parameters=[*named, *more])  # type: ignore[attr-defined]  # read by inspect
        return verb

    return spell_out


def _default(body: type[BaseModel], name: str) -> Any:
    # What the gateway makes of an option that is left out.
    default = body.model_fields[name].get_default(call_default_factory=True)
    return tuple(default) if isinstance(default, list) else default
