"""Every generated page with its text, and whether what is committed is current."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.evidence import faults, gpu, papers
from evaluation.evidence.capacity import capacity_page
from evaluation.evidence.conjunctions import CONJUNCTIONS, conjunctions_page
from evaluation.evidence.dataset_interfaces import interfaces_page
from evaluation.evidence.edits import edits_page, read_edits
from evaluation.evidence.findings import findings_page
from evaluation.evidence.gates import gate_page
from evaluation.evidence.hunt_statistics import hunt_statistics_page
from evaluation.evidence.hunts import hunts_page
from evaluation.evidence.load import load_drawings, load_page, read_load
from evaluation.evidence.lost_work import lost_work_page
from evaluation.evidence.markdown import GENERATED
from evaluation.evidence.markers import markers
from evaluation.evidence.operations import operations_page
from evaluation.evidence.preservation import preservation_page
from evaluation.evidence.quality import quality_page
from evaluation.evidence.rehearsal import rehearsal_page
from evaluation.evidence.scale import scale_page
from evaluation.evidence.served_editor import served_page
from evaluation.evidence.simulated_faults import simulated_page
from evaluation.evidence.speed import speed_page
from evaluation.evidence.statistics import statistics_page
from evaluation.evidence.transfers import MAP, read_transfers, transfers_map, transfers_page
from evaluation.evidence.validity import validity_page
from evaluation.paths import ROOT
from evaluation.scale.report import read_scale

EVIDENCE = ROOT / "docs/evidence"
SITE = ROOT / "mkdocs.yml"
_BEFORE_CONJUNCTIONS = "      - Findings and rendered truth: evidence/findings.md\n"
_CONJUNCTIONS_ENTRY = "      - Findings of two conditions: evidence/conjunctions.md\n"


def pages() -> Mapping[Path, str]:
    """Return the text that each page should have."""
    covered, load, transfers = markers(), read_load(), read_transfers()
    evidence = {
        EVIDENCE / "validity.md": validity_page(),
        EVIDENCE / "findings.md": findings_page(),
        **({EVIDENCE / "conjunctions.md": conjunctions_page(CONJUNCTIONS)} if CONJUNCTIONS.exists() else {}),
        EVIDENCE / "operations.md": operations_page(),
        EVIDENCE / "preservation.md": preservation_page(),
        EVIDENCE / "served-editor.md": served_page(),
        EVIDENCE / "dataset-interfaces.md": interfaces_page(),
        EVIDENCE / "bug-hunts.md": hunts_page(),
        EVIDENCE / "transfers.md": transfers_page(transfers),
        EVIDENCE / "quality.md": quality_page(),
        EVIDENCE / "edits.md": edits_page(read_edits()),
        EVIDENCE / "statistics.md": statistics_page(),
        EVIDENCE / "hunt-statistics.md": hunt_statistics_page(),
        EVIDENCE / "gate.md": gate_page(),
        EVIDENCE / "speed.md": speed_page(),
        EVIDENCE / "capacity.md": capacity_page(),
        EVIDENCE / "rehearsal.md": rehearsal_page(),
        EVIDENCE / "load.md": load_page(load),
        EVIDENCE / "scale.md": scale_page(read_scale()),
        EVIDENCE / "faults.md": faults.page(covered.fault, faults.read_results()),
        EVIDENCE / "lost-work.md": lost_work_page(),
        EVIDENCE / "simulated-faults.md": simulated_page(),
    }
    table = papers.page(papers.PAGE.read_text(encoding="utf-8"), covered.paper)
    drawn = {EVIDENCE / name: text for name, text in load_drawings(load).items()}
    drawn[EVIDENCE / MAP] = transfers_map(transfers)
    computed = gpu.gpu_page(gpu.PAGE.read_text(encoding="utf-8"))
    return {
        papers.PAGE: table,
        gpu.PAGE: computed,
        SITE: navigation(SITE.read_text(encoding="utf-8"), conjunctions=CONJUNCTIONS.exists()),
        EVIDENCE / "index.md": index_page(evidence),
        # The site's search leaves these pages out: they would be among the first hits of most words.
        EVIDENCE / ".meta.yml": "search:\n  exclude: true\n",
        **evidence,
        **drawn,
    }


def navigation(text: str, *, conjunctions: bool) -> str:
    """Return the site's configuration with or without the page that needs a record of its own."""
    without = text.replace(_CONJUNCTIONS_ENTRY, "")
    entries = _BEFORE_CONJUNCTIONS + _CONJUNCTIONS_ENTRY
    return without.replace(_BEFORE_CONJUNCTIONS, entries) if conjunctions else without


def index_page(evidence: Mapping[Path, str]) -> str:
    """Return the page that links the others, each with its finding."""
    parts = ["# Evidence", GENERATED, "Every figure below comes from a file of `evaluation/results`."]
    for path, text in evidence.items():
        title, _, finding = text.split("\n\n")[:3]
        parts.append(f"**[{title.removeprefix('# ')}]({path.name})**: {finding}")
    return "\n\n".join(parts) + "\n"


def outdated() -> list[Path]:
    """Return the pages whose committed text differs, and files that belong to no page."""
    made = pages()
    stray = [path for path in EVIDENCE.iterdir() if path not in made]
    return stray + [path for path, text in made.items() if not _holds(path, text)]


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
