"""``counterpose make-pairs``: images and table of pairs, by an editor of the user's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from counterpose._cli.classifiers import import_from_working_directory
from counterpose._cli.groups import examples
from counterpose._cli.steps import going_on
from counterpose._cli.terminal import exit_on_error, print_note, print_result
from counterpose._datasets import own_editor

EXAMPLES = examples(
    "counterpose make-pairs photos/ --editor py:fogs:edit --change 'in fog' --level 1 --level 3 --out foggy/"
)


def make_pairs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with one subfolder per class.")],
    editor: Annotated[
        str,
        typer.Option(
            "--editor",
            metavar="EDITOR",
            help="py:module:function, called as edit(image, change, level, seed), or an address.",
        ),
    ],
    change: Annotated[
        list[str], typer.Option("--change", metavar="WORDS", help="What it is to change. Repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new folder.")],
    level: Annotated[
        list[int] | None,
        typer.Option("--level", metavar="N", min=1, help="How much of it; default: 1. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Given to the editor.")] = 0,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.1, help="That it has for an image.")
    ] = own_editor.SECONDS,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Number of images; default: all.")
    ] = None,
) -> None:
    """Let an editor of your own change each image of a folder, for `stress-test --pairs`."""
    import_from_working_directory()
    with exit_on_error(), going_on("the editor starts") as steps:
        table = own_editor.make_pairs(
            folder,
            editor=editor,
            changes=dict.fromkeys(change, level or [1]),
            out=out,
            seed=seed,
            seconds=seconds,
            limit=limit,
            tell=lambda done, of: steps.tell(f"{done} of {of} images edited", if_long=True),
        )
    print_result(str(table))
    words = ["counterpose", "stress-test", str(folder), "--pairs", str(table.path)]
    print_note(f"next: {shlex.join(words)} --classifier CLASSIFIER")
