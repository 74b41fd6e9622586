"""A gate as JUnit XML: a test case for each candidate under each change."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from counterpose_core.contract.gates import GateCell, GateSummary, UntestedClasses

SUITE = "counterpose gate"

# XML 1.0 has no form for these characters, not even an escaped one.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(summary: GateSummary) -> str:
    """Return the cells as JUnit XML.

    ``failure`` of type ``regression``: a regression is proven; of type ``inconclusive``: neither proven nor
    ruled out, so the pipeline is not green either. ``error``: answers are missing. ``skipped``: too few
    images for a test, also of the single classes of each change. Where no cell says what the gate says, a
    case named ``gate`` does.
    """
    suite = ET.Element("testsuite", name=SUITE)
    for cell in summary.cells:
        case = ET.SubElement(
            suite, "testcase", classname=_text(f"counterpose.gate.{cell.classifier}"), name=_text(cell.name)
        )
        _say(case, cell)
    for untested in summary.config.regression_set.untested or []:
        if untested.sources:
            _say_untested(suite, untested)
    if summary.outcome != "passed" and not _says_so(suite):
        _say_gate(suite, summary)
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    root = ET.Element("testsuites", name=SUITE)
    for name, number in counts.items():
        root.set(name, str(number))
        suite.set(name, str(number))
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _says_so(suite: ET.Element) -> bool:
    return any(suite.findall(f"testcase/{tag}") for tag in ("failure", "error"))


def _say_gate(suite: ET.Element, summary: GateSummary) -> None:
    case = ET.SubElement(suite, "testcase", classname="counterpose.gate", name="gate")
    if summary.outcome == "inconclusive":
        ET.SubElement(case, "failure", type="inconclusive", message=_text(summary.verdict))
    else:
        ET.SubElement(case, "error", type="infrastructure", message=_text(summary.verdict))


def _say_untested(suite: ET.Element, untested: UntestedClasses) -> None:
    name = _text(f"{untested.change or 'source images'}, single classes")
    case = ET.SubElement(suite, "testcase", classname="counterpose.gate", name=name)
    ET.SubElement(case, "skipped", message=_text(f"too few source images for a test: {untested}"))


def _say(case: ET.Element, cell: GateCell) -> None:
    figures = _text(f"{cell.regression}, {cell.left_out} of {cell.pairs} left out")
    match cell.state:
        case "failed":
            ET.SubElement(case, "failure", type="regression", message=f"regression {figures}")
        case "inconclusive":
            ET.SubElement(case, "failure", type="inconclusive", message=f"regression {figures}")
        case "error":
            ET.SubElement(case, "error", type="infrastructure", message=f"answers are missing: {figures}")
        case "skipped":
            ET.SubElement(case, "skipped", message=f"too few source images: {figures}")
        case "passed":
            ET.SubElement(case, "system-out").text = f"regression {figures}"


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
