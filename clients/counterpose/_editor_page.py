"""The report of a comparison of editors: one HTML file, by the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from counterpose_core.contract.preservation import MEANINGS, Fault
from counterpose_core.types import Estimate

if TYPE_CHECKING:
    from counterpose._editor_comparison import EditorComparison, EditorRow, ShownPair

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d5d8dd, #43474f);
--quiet: light-dark(#5a616b, #a6adb8); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
border-top: 1px solid var(--line); }
thead th { border-top: 0; } small, .quiet { color: var(--quiet); }
.pair { display: flex; flex-wrap: wrap; gap: 1rem; margin: .5rem 0 1.5rem; }
figure { margin: 0; max-width: 300px; } figure div { display: flex; gap: 4px; margin-bottom: .25rem; }
figure img { width: 148px; height: auto; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .6rem; }
"""

_EDITORS = (
    "preset",
    "edits kept",
    "dropped or failed",
    "faulty edits",
    "faulty controls",
    "PSNR of reconstruction, dB",
    "seconds an item",
    "cost",
    "run",
)
_OF_EDITORS = """Shares and means have 95 % intervals, and n counts source images, a group of them as one
(of seconds, items: edits, placebos and controls, an edit at all its strengths). An edit that failed is not
kept. A control has nothing to change; a fault of preservation is a change that nobody asked for, of images
that were kept. An editor that does not reconstruct, such as a server's, has no PSNR: its control is an edit
of the caption to itself. Seconds and cost are what this gateway spent. What it had already cost nothing,
such as an inversion that another preset shares: the order of presets matters then."""
_DIFFERENCES = ("figure", "first less second", "difference", "sources", "left out", "p", "p, corrected")
_OF_DIFFERENCES = """Same source, same edit. Intervals resample source images or their groups (seed {seed}).
Where all sources agree, the interval is for others that n cannot rule out, each as far off as the figure can
be (1, or 100 dB);
p is two-sided, by flipping their signs, and corrected by Holm's method over all rows of this table.
{unpaired} edits are in no row: not every editor's run ended them with an image; of a row's two editors,
"left out" counts edits or controls that it lacks. Faulty edits are in no row of two presets that keep to
different regions: where a region was given, faults are told by it, and more of them. Give all presets one
region to compare them."""
_OF_PAIRS = """Edits with the most faults over all editors, one for each source image; of equals, those
whose image moved least in the direction of the words. A map is blue where nothing changed and yellow where
much did; the outline is what changed visibly."""


def page_of(comparison: EditorComparison) -> str:
    """Return the report as one HTML file."""
    names = ", ".join(row.preset for row in comparison.editors)
    title = escape(f"Editors compared on {comparison.dataset}")
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{escape(_finding(comparison))}</p>",
        "<h2>Each editor</h2>",
        _table(_EDITORS, map(_editor, comparison.editors)),
        _note(_OF_EDITORS),
        *_spent(comparison),
        "<h2>Differences on the same edits</h2>",
        _table(_DIFFERENCES, _differences(comparison)),
        _note(_OF_DIFFERENCES.format(seed=comparison.seed, unpaired=comparison.unpaired)),
        "<h2>The worst pairs</h2>",
        *(_pair(comparison, pair) for pair in comparison.worst),
        "" if comparison.worst else "<p>No edit has an image of every editor.</p>",
        _note(_OF_PAIRS),
        "<h2>What was asked</h2>",
        f"<pre>{escape(json.dumps(comparison.request, indent=1))}</pre>",
    ]
    head = (
        f'<meta charset="utf-8"><title>{title}: {escape(names)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _spent(comparison: EditorComparison) -> Iterator[str]:
    if comparison.spending is not None:
        yield f"<p>{escape('; '.join(['All runs together', *comparison.spending.lines]))}.</p>"


def _note(text: str) -> str:
    return f'<p class="quiet">{text}</p>'


def _finding(comparison: EditorComparison) -> str:
    sure = [each for each in comparison.differences if each.p_adjusted <= 0.05]
    if not sure:
        return (
            f"No difference between {len(comparison.editors)} editors is proven: each of "
            f"{len(comparison.differences)} may be chance."
        )
    told = "; ".join(
        f"{each.figure}: {each.first} less {each.second} {_figure(each.difference)}" for each in sure
    )
    return f"{len(sure)} of {len(comparison.differences)} differences are proven. {told}."


def _editor(row: EditorRow) -> Sequence[str]:
    ends = row.dropped | ({"failed": row.failed} if row.failed else {})
    dropped = ", ".join(f"{escape(reason)} {number}" for reason, number in ends.items()) or "none"
    seconds = (
        "-" if row.seconds_an_item is None else f"{row.seconds_an_item:.2f} <small>n={row.items}</small>"
    )
    region = f"<br><small>region: {row.region}</small>" if row.region else ""
    return (
        f"<b>{escape(row.preset)}</b>{region}",
        _with_n(row.kept),
        dropped,
        _faults(row.faulty_edits, row.faults["edits"]),
        _faults(row.faulty_controls, row.faults["controls"]),
        _with_n(row.reconstruction_db, 1) if row.reconstruction_db.n else "no reconstruction",
        seconds,
        escape(str(row.cost)),
        f"<code>{escape(row.run[:8])}</code>",
    )


def _faults(share: Estimate, faults: Mapping[Fault, int]) -> str:
    told = "".join(
        f"<br><small>{number} {escape(MEANINGS[fault])}</small>"
        for fault, number in sorted(faults.items(), key=lambda each: -each[1])
    )
    return _with_n(share) + told


def _differences(comparison: EditorComparison) -> Iterator[Sequence[str]]:
    for each in comparison.differences:
        yield (
            "faulty edits, of those that both kept" if each.figure == "faulty edits" else each.figure,
            f"{escape(each.first)} less {escape(each.second)}",
            _figure(each.difference) + "<br><small>equal in all sources</small>" * each.equal,
            str(each.difference.n),
            str(each.left_out),
            f"{each.p:.3g}",
            f"{each.p_adjusted:.3g}",
        )


def _pair(comparison: EditorComparison, pair: ShownPair) -> str:
    shown = [_figure_of(comparison, "source", "", pair.source)]
    shown += [
        _figure_of(comparison, edit.preset, edit.said, *(ref for ref in (edit.image, edit.map) if ref))
        for edit in pair.edits
    ]
    words = f"<p>{escape(pair.caption)} → <b>{escape(pair.edited_caption)}</b></p>"
    return f'{words}<div class="pair">{"".join(shown)}</div>'


def _figure_of(comparison: EditorComparison, title: str, said: str, *refs: str) -> str:
    """One editor's image and, beside it, its difference map."""
    images = "".join(
        f'<img src="data:image/png;base64,{comparison.images.get(ref, "")}" alt="{escape(name)}">'
        for ref, name in zip(refs, (title, f"{title}: what changed"), strict=False)
    )
    caption = f"<figcaption>{escape(title)}<br><small>{escape(said)}</small></figcaption>"
    return f"<figure><div>{images}</div>{caption}</figure>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(estimate: Estimate, digits: int = 3) -> str:
    if estimate.estimate is None:
        return "-"
    written = f"{estimate.estimate:.{digits}f} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"
    return written.replace(" ", "\N{NO-BREAK SPACE}")


def _with_n(estimate: Estimate, digits: int = 2) -> str:
    return f"{_figure(estimate, digits)} <small>n={estimate.n}</small>"
