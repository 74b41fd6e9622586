"""What a run says a proof takes: more pairs the more findings one could have asked about."""

from __future__ import annotations

from counterpose_gateway.methods.stress_test.confirm.images_left import least_pairs_of
from fakes.findings import a_finding


def test_a_run_without_findings_tells_no_least_pairs_and_many_findings_take_more() -> None:
    assert least_pairs_of([], {}) == {}
    untested = [a_finding(number=number, confirmed=None) for number in range(1, 25)]
    assert least_pairs_of(untested[:1], {1}) == {1: 5}
    assert least_pairs_of(untested, {1, 2}) == {1: 10, 2: 10}
