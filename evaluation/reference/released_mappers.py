"""Makes the fixture of token alignments that prompt-to-prompt's released code makes.

    git clone https://github.com/google/prompt-to-prompt /tmp/prompt-to-prompt
    python -m evaluation.reference.released_mappers /tmp/prompt-to-prompt

Runs `seq_aligner.py` and `ptp_utils.py` of the checkout, which are not part of this repository, on pairs of
captions, and writes the numbers that they return to `tests/fixtures/released-mappers.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from subprocess import run
from typing import Any

from tokenizers import Tokenizer

from evaluation.paths import ROOT, SUITE_WEIGHTS

FIXTURE = ROOT / "tests/fixtures/released-mappers.json"
FILES = ("seq_aligner.py", "ptp_utils.py")
PIECES = {
    "snowmobile": ("snow", "mobile"),
    "labradoodle": ("labra", "doo", "dle"),
    "lighthouse": ("light", "house"),
}
"""Words of several tokens: the miniature's tokenizer has none."""
STEPS = ((0.8, 50), (0.3, 20), (0.3, 5), (0.5, 5), (0.8, 12), (0.29, 100), (0.9, 10), (1.0, 8), (0.0, 8))
"""Fractions of the steps with replaced cross-attention, and numbers of steps."""
BUS = "a photo of a red bus on grass"
RED, BLUE = ["a red bus on grass"], ["a blue bus on grass"]


@dataclass(frozen=True)
class Case:
    """A caption, its edit, and the added words, parted by spaces."""

    source: str
    target: str
    added: str = ""


CASES = {
    "nothing": Case(BUS, BUS),
    "one word added": Case(BUS, "a photo of a red bus on wet grass", "wet"),
    "words added at the end": Case(BUS, f"{BUS} next to a dog", "next to a dog"),
    "words added at the start": Case("red bus on grass", "a sketch of red bus on grass", "a sketch of"),
    "one word removed": Case(BUS, "a photo of a bus on grass"),
    "words removed at the end": Case(f"{BUS} in the rain", BUS),
    "words removed in the middle": Case(f"{BUS} in the rain next to a dog", f"{BUS} next to a dog"),
    "all words removed": Case("red bus", ""),
    "all words added": Case("", "red bus", "red bus"),
    "one word replaced": Case(BUS, "a photo of a blue bus on grass", "blue"),
    "two words replaced": Case(BUS, "a sketch of a red bus on water", "sketch water"),
    "one word by two": Case(f"{BUS} in the rain", f"{BUS} at night", "at night"),
    "a word moved": Case("red bus on grass", "bus on red grass", "red"),
    "words swapped": Case("a dog next to a ball", "a ball next to a dog", "ball dog"),
    "a word twice": Case("the bus", "the bus the bus", "the bus"),
    "one of two equal words removed": Case("a dog a dog a ball", "a dog a ball"),
    "several edits": Case(
        f"{BUS} in the rain",
        "a sketch of a bus on wet grass next to a dog at night",
        "sketch wet next to a dog at night",
    ),
    "nothing in common": Case("red bus", "a dog on grass", "a dog on grass"),
    "a longer word added": Case(BUS, f"{BUS} next to a labradoodle", "next to a labradoodle"),
    "a longer word removed": Case("a snowmobile on grass", "a on grass"),
    "a word by one as long": Case("a snowmobile on grass", "a lighthouse on grass", "lighthouse"),
    "a word by a longer one": Case("a dog on grass", "a labradoodle on grass", "labradoodle"),
    "a word by a shorter one": Case("a labradoodle on grass", "a dog on grass", "dog"),
    "up to 24 tokens": Case(" ".join(RED * 4), " ".join([*RED * 4, "at night"]), "at night"),
    "from 24 tokens on": Case(" ".join([*RED * 4, "at night"]), " ".join(BLUE * 4), "blue"),
}
LONG = {
    "up to 77 tokens": Case(" ".join(RED * 14), " ".join(RED * 15), RED[0]),
    "from 77 tokens on": Case(" ".join(RED * 15), "a photo of a dog", "photo of dog"),
}


class Words:
    """The miniature's tokenizer as the released code asks for it, with a few words of several tokens."""

    def __init__(self) -> None:
        self._tokens = Tokenizer.from_file(str(SUITE_WEIGHTS / "editor/tokenizer/tokenizer.json"))
        size = self._tokens.get_vocab_size()
        pieces = dict.fromkeys(piece for word in PIECES.values() for piece in word)
        self._pieces = {piece: size + number for number, piece in enumerate(pieces)}

    def spans(self, text: str) -> list[list[int]]:
        """Token ids of each word."""
        return [self._ids(word) for word in text.split()]

    def _ids(self, word: str) -> list[int]:
        if word in PIECES:
            return [self._pieces[piece] for piece in PIECES[word]]
        return list(self._tokens.encode(word).ids[1:-1])

    def encode(self, text: str) -> list[int]:
        """Token ids with the marks of beginning and end."""
        begin, end = self._tokens.encode("").ids
        return [begin, *(token for word in self.spans(text) for token in word), end]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of one token."""
        known = {number: piece for piece, number in self._pieces.items()}
        return known.get(ids[0]) or str(self._tokens.id_to_token(ids[0]))


def released(checkout: Path) -> tuple[Any, Any]:
    """Import the two modules; the library with which one of them shows images is not needed."""
    for name, names in {
        "cv2": (),
        "IPython": (),
        "IPython.display": ("display",),
        "tqdm.notebook": ("tqdm",),
    }.items():
        stand_in = types.ModuleType(name)
        for each in names:
            setattr(stand_in, each, None)
        sys.modules.setdefault(name, stand_in)
    sys.path.insert(0, str(checkout))
    return import_module("seq_aligner"), import_module("ptp_utils")


def alignment(aligner: Any, words: Words, case: Case, length: int) -> Mapping[str, Any]:
    """What the released functions make of one pair of captions."""
    mapper, alphas = aligner.get_mapper(case.source, case.target, words, length)
    weighted = {
        int(place) for word in case.added.split() for place in aligner.get_word_inds(case.target, word, words)
    }
    replacement = None
    if len(case.source.split()) == len(case.target.split()):
        matrix = aligner.get_replacement_mapper_(case.source, case.target, words, length)
        replacement = [[int(i), int(j), float(matrix[i, j])] for i, j in matrix.nonzero().tolist()]
    return {
        "length": length,
        "source": [words.encode(case.source), owners(words, case.source)],
        "target": [words.encode(case.target), owners(words, case.target)],
        "mapper": mapper.tolist(),
        "alphas": [int(alpha) for alpha in alphas],
        "weighted": sorted(weighted),
        "replacement": replacement,
    }


def owners(words: Words, text: str) -> list[int | None]:
    """The word that each token belongs to, None for the marks."""
    ends = [0, *accumulate(map(len, words.spans(text)))]
    return [None, *(number for number, (a, b) in enumerate(pairwise(ends)) for _ in range(a, b)), None]


def cross_steps(utils: Any, words: Words, fraction: float, steps: int) -> int:
    """The number of steps whose cross-attention the released code replaces, of those that are made."""
    active = utils.get_time_words_attention_alpha([BUS, BUS], steps, fraction, words, 24)
    return int(active[:steps, 0, 0, 0, 0].sum())


def main() -> None:
    """Run the released code and write the fixture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="checkout of google/prompt-to-prompt")
    parser.add_argument("--commit", help="its commit; asked of git if not given")
    parser.add_argument("--out", type=Path, default=FIXTURE, help="file to write")
    given = parser.parse_args()
    aligner, utils = released(given.checkout)
    words = Words()
    commit = given.commit or run(
        ["git", "-C", given.checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()  # fmt: skip
    cases = {
        f"{name}, {length} tokens": alignment(aligner, words, case, length)
        for length, chosen in ((24, CASES), (77, CASES | LONG))
        for name, case in chosen.items()
    }
    made = {
        "made_by": {
            "repository": "https://github.com/google/prompt-to-prompt",
            "commit": commit,
            "licence": "Apache-2.0",
            "sha256": {
                name: hashlib.sha256((given.checkout / name).read_bytes()).hexdigest() for name in FILES
            },
        },
        "cross_steps": {
            f"{fraction} of {steps}": cross_steps(utils, words, fraction, steps) for fraction, steps in STEPS
        },
    }
    # One line an alignment: readable diffs, and a tenth of the lines of an indented file.
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    head = json.dumps(made, indent=1).removesuffix("\n}")
    given.out.write_text(f'{head},\n "alignments": {{\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
