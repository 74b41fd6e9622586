"""Verdicts as JUnit XML: a test case for each classifier under each change."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.outcomes import DropLimit, JudgedDrop, judged_drops
from counterpose_core.contract.gates import GateCell, GateSummary, UntestedClasses
from counterpose_core.contract.stress_tests import StressTestSummary

# XML 1.0 has no form for these characters, not even an escaped one.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_junit(summary: GateSummary) -> str:
    """Return the cells as JUnit XML.

    ``failure`` of type ``regression``: a regression is proven; of type ``inconclusive``: neither proven nor
    ruled out, so the pipeline is not green either. ``error``: answers are missing. ``skipped``: too few
    images for a test, also of the single classes of each change. Where no cell says what the gate says, a
    case named ``gate`` does.
    """
    suite = ET.Element("testsuite", name="counterpose gate")
    for cell in summary.cells:
        _say(_case(suite, f"counterpose.gate.{cell.classifier}", cell.name), cell)
    for untested in summary.config.regression_set.untested or []:
        if untested.sources:
            _say_untested(suite, untested)
    if summary.outcome != "passed" and not _says_so(suite):
        _say_gate(suite, summary)
    return _document(suite)


def stress_test_junit(summary: StressTestSummary, limit: DropLimit, ended: ExitCode) -> str:
    """Return what a limit says of each drop as JUnit XML: a case for each classifier and operation or edit.

    ``failure`` of type ``drop``: it is proven to exceed the limit, at one level at least; of type
    ``inconclusive``: neither proven nor ruled out, or there is nothing to judge. ``error``: the run did not
    complete, so nothing is judged. The case of an operation tells the loss at each level that is judged, and
    where images fail in a run that asked for severity.
    """
    suite = ET.Element("testsuite", name="counterpose stress-test")
    told = summary.transforms and summary.transforms.severity
    failures = {(each.classifier, each.title): str(each) for each in (told.figures if told else ())}
    by_case: dict[tuple[str, str], list[JudgedDrop]] = {}
    for each in judged_drops(summary) if ended is ExitCode.PASSED else ():
        by_case.setdefault((each.classifier, each.change), []).append(each)
    for (classifier, change), drops in by_case.items():
        case = _case(suite, f"counterpose.stress-test.{classifier}", change)
        losses = [f"{each.drop} where {each.words}" if each.words else str(each.drop) for each in drops]
        said = _text(
            "; ".join(["drop " + ", ".join(losses), *filter(None, [failures.get((classifier, change))])])
        )
        match limit.worst(drops):
            case ExitCode.FAILED:
                ET.SubElement(case, "failure", type="drop", message=said)
            case ExitCode.PASSED:
                ET.SubElement(case, "system-out").text = said
            case _:
                ET.SubElement(case, "failure", type="inconclusive", message=said)
    if not by_case:
        case = _case(suite, "counterpose.stress-test", "stress test")
        if ended is ExitCode.PASSED:
            ET.SubElement(case, "failure", type="inconclusive", message=_text(summary.verdict))
        else:
            ET.SubElement(case, "error", type="infrastructure", message="the run did not complete")
    return _document(suite)


def _case(suite: ET.Element, classname: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_text(classname), name=_text(name))


def _document(suite: ET.Element) -> str:
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    root = ET.Element("testsuites", name=suite.attrib["name"])
    for name, number in counts.items():
        root.set(name, str(number))
        suite.set(name, str(number))
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _says_so(suite: ET.Element) -> bool:
    return any(suite.findall(f"testcase/{tag}") for tag in ("failure", "error"))


def _say_gate(suite: ET.Element, summary: GateSummary) -> None:
    case = _case(suite, "counterpose.gate", "gate")
    if summary.outcome == "inconclusive":
        ET.SubElement(case, "failure", type="inconclusive", message=_text(summary.verdict))
    else:
        ET.SubElement(case, "error", type="infrastructure", message=_text(summary.verdict))


def _say_untested(suite: ET.Element, untested: UntestedClasses) -> None:
    case = _case(suite, "counterpose.gate", f"{untested.change or 'source images'}, single classes")
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
