"""Findings in the report: cards of a run of two stages, every model's rate, and files to hand on."""

from __future__ import annotations

import base64
import csv
import io
import re

import pytest

from counterpose_core.contract.suite_fit import SuiteFitSummary
from counterpose_core.types import EditType, Estimate
from counterpose_gateway.methods.stress_test.report.downloads import findings_csv, report_md
from counterpose_gateway.methods.stress_test.report.findings import Rate, rates
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.report.tables import class_rows, kind_rows, model_rows
from counterpose_gateway.methods.stress_test.report.trust import trust
from counterpose_gateway.methods.stress_test.summary import headline
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.hints import as_findings
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.reports.reasons import LEFT_OUT
from fakes.findings import a_confirmation, a_finding, a_pair
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.reported_findings import SHAKEN, confirmed, page, pairs, shaken, with_findings
from fakes.results import Ledgered, fake_config


def test_a_confirmed_finding_opens_the_report_with_its_pairs_and_its_test() -> None:
    ledgered = shaken()
    html = page(ledgered, confirmed(ledgered, flipped=10, of=12))
    text = text_of(html)
    assert "1 of 2 models breaks when one thing in the image changes." in text
    assert "One change was tested, and proven on images that the search did not use." in text
    assert "✗ breaks 10 of 12" in text
    assert "a loss of 0.62 (95 % interval 0.41 to 0.78, n=12), p < 0.001, p = 0.002 after Holm's" in text
    assert (
        "12 of 14 planned pairs were kept (left out: 2 as the image does not change as its caption does)."
        in text
    )
    assert 'href="#finding-1"' in html
    assert html.index('class="photo"') < html.index("How sure is this?")


def test_a_card_says_in_words_why_pairs_were_left_out() -> None:
    ledgered = shaken()
    lost = {name: 1 for reason in LEFT_OUT for name in (reason, f"placebo-{reason}")}
    card = page(ledgered, confirmed(ledgered).model_copy(update={"confirmed": a_confirmation(dropped=lost)}))
    for words in LEFT_OUT.values():
        assert f"1 as {words}; 1 as {words} (its control)" in text_of(card)


def test_what_is_proven_on_redrawn_images_says_nothing_of_others() -> None:
    ledgered = shaken()
    few = a_confirmation(scope="images", n_sources=4, n_pairs=18)
    redrawn = confirmed(ledgered).model_copy(update={"confirmed": few})
    text = text_of(page(ledgered, redrawn))
    assert "One change was tested, and shown to hurt a few images, each edited several times." in text
    assert "Tested on 4 images, each edited several times, as too few others were left" in text
    assert "18 of 14 planned pairs were kept" in text
    both = text_of(page(ledgered, redrawn, confirmed(ledgered, number=2)))
    assert "2 of 2 changes were proven, 1 of them only for a few images, each edited several times." in both


def test_the_first_screen_shows_original_control_and_edit_of_the_clearest_pair() -> None:
    ledgered = shaken()
    likeness = {0: 0.9, 1: 0.7, 2: 0.95, 3: 0.8}
    edits = [item for item in ledgered.items if item.kind == "edit"]
    for at, edit in enumerate(edits):
        assert edit.result is not None
        assert edit.result.scores is not None
        scores = edit.result.scores.model_copy(update={"image_image": likeness[at]})
        turned = {} if at != 2 else {"predictions": edit.result.original_predictions}
        result = edit.result.model_copy(update={"scores": scores, **turned})
        ledgered.items[ledgered.items.index(edit)] = edit.model_copy(update={"result": result})
    html = page(ledgered, confirmed(ledgered))
    first = html[html.index('id="verdict"') : html.index('id="models"')]
    # The third changes least, but its answer stays right.
    assert first.count('class="pair of-3"') == 4
    assert first.index(edits[0].id) < first.index(edits[1].id)
    assert re.findall(r'class="which">([^<]+):', first)[:3] == ["Your image", "Control", "Edited"]
    answers = re.findall(r'class="answer (right|wrong)"', first)[:3]
    assert answers == ["right", "right", "wrong"]
    assert "4 pairs, the clearest first" in text_of(html)
    others = html[html.index('id="models"') :]
    assert 'class="pair of-3"' not in others


def test_a_pair_that_lost_its_control_is_shown_without() -> None:
    ledgered = shaken()
    bare = confirmed(ledgered).model_copy(update={"pairs": [a_pair(pairs(ledgered)[0][0], "lost")]})
    html = page(ledgered, bare)
    assert 'class="pair"' in html[html.index('id="verdict"') : html.index('id="models"')]


def test_a_count_of_redraws_is_explained_where_it_stands() -> None:
    ledgered = shaken()
    few = a_confirmation(scope="images", n_sources=4, n_pairs=18)
    redrawn = confirmed(ledgered).model_copy(update={"confirmed": few})
    text = text_of(page(ledgered, redrawn))
    told = "The count speaks of these 4 images, not of others."
    assert told in text.split("How sure is this?")[0]
    assert told not in text_of(page(ledgered, confirmed(ledgered)))


def test_a_share_that_hardly_falls_beside_a_model_that_breaks_is_explained() -> None:
    ledgered = shaken()
    told = "“Right before → after” is about all edits of the search, 4 edits of 4 images"
    assert told in text_of(page(ledgered, confirmed(ledgered)))
    assert told not in text_of(page(ledgered, a_finding(state="cannot-tell")))


def test_a_p_that_no_correction_changes_is_told_once() -> None:
    ledgered = shaken()
    alike = confirmed(ledgered).model_copy(
        update={"confirmed": a_confirmation(p=0.0001, p_adjusted=0.0002, family_size=2)}
    )
    text = text_of(page(ledgered, alike))
    assert "n=12), p < 0.001 after Holm's correction over 2 changes." in text


def test_a_finding_that_cannot_tell_names_the_rule_that_decided() -> None:
    ledgered = shaken()
    known = [a_pair(edit, placebo) for edit, placebo in pairs(ledgered)]
    open_ = a_finding(state="cannot-tell", confirmed=a_confirmation(), why="its loss is small.", pairs=known)
    assert "Why it cannot tell: its loss is small." in text_of(page(ledgered, open_))
    assert "why it cannot tell: its loss is small." in str(open_)
    assert "hy it cannot tell" not in text_of(page(ledgered, confirmed(ledgered))) + str(confirmed(ledgered))


@pytest.mark.parametrize(
    ("kind", "said"), [("object", "added: with a dog"), ("background", "snow instead of grass")]
)
def test_the_caption_of_an_edit_says_what_came_or_went(kind: EditType, said: str) -> None:
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(4)], {kind: SHAKEN})
    assert said in text_of(page(ledgered, confirmed(ledgered)))


def test_one_of_a_thing_is_not_many() -> None:
    text = text_of(page(shaken(1)))
    assert "1 source, 1 image" in text
    assert not re.search(r"\b1 (sources|images|edits|pairs)\b", text)


def test_a_test_that_stopped_says_so() -> None:
    ledgered = shaken()
    finding = a_finding(state="cannot-tell", confirmed=a_confirmation(stopped=True, dropped={}))
    text = text_of(page(ledgered, finding))
    assert "The test stopped early: its first pairs showed too little." in text
    assert "12 of 14 planned pairs were kept." in text
    assert "– can't tell" in text


def test_a_finding_whose_images_are_gone_is_still_told() -> None:
    ledgered = shaken()
    html = page(ledgered, a_finding(pairs=[a_pair("lost", "lost too")]))
    assert a_finding().sentence in text_of(html)
    assert "The hardest of 4 edits" in text_of(html)


def test_a_run_without_a_finding_opens_with_its_hardest_edit() -> None:
    ledgered = Ledgered()
    weaker = {"steady": 0.9, "leaning": 0.88}
    ledgered.stress([f"source-{index}" for index in range(60)], {"background": weaker})
    summary = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    assert [verdict.state for verdict in summary.verdicts] == ["holds", "holds"]
    html = render(
        summary, recorded_run(fake_config(), ledgered.items), ledgered.items, ledgered.world.store.get
    )
    first = html[html.index('id="verdict"') : html.index('id="models"')]
    assert re.findall(r'class="which">([^<]+)<', first) == ["Your image", "Control", "Edited"]
    assert len(set(re.findall(r'<use href="#([^"]+)"', first))) == 3
    text = text_of(html)
    assert text.index("All 2 models hold.") < text.index("The hardest of 60 edits") < text.index("✓ holds")
    places = re.findall(r' id="([^"]+)"', html)
    assert len(set(places)) == len(places)


def test_a_hint_of_similar_changes_shows_all_of_them() -> None:
    ledgered = shaken(3)
    made = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    members = [item.id for item in ledgered.items if item.kind == "edit"]
    cluster = made.insights[0].model_copy(update={"cluster_size": 2, "cluster_items": members[:2]})
    [finding] = as_findings([cluster], [Evidence.of(ledgered.items, "leaning")], LanceEstimator(0))
    assert sorted(pair.edit for pair in finding.pairs) == sorted(members[:2])


def test_confidence_is_told_before_after_and_on_the_control() -> None:
    ledgered = shaken()
    text = text_of(page(ledgered, confirmed(ledgered))).replace("\u00a0", " ")
    assert (
        "Confidence in “sled” goes from 90 % to 20 % on average. Edited to the same meaning, it is 90 %."
        in text
    )
    bare = confirmed(ledgered).model_copy(update={"pairs": [a_pair(pairs(ledgered)[0][0])]})
    assert "goes from 90 % to 20 % on average." in text_of(page(ledgered, bare)).replace("\u00a0", " ")


def test_every_model_is_compared_on_the_same_edits() -> None:
    ledgered = shaken(3)
    made = {item.id: (item, item.result) for item in ledgered.items if item.result is not None}
    known = [a_pair(edit) for edit, _ in pairs(ledgered)]
    assert rates({"steady": None, "leaning": None, "absent": None}, known, made) == {
        "steady": Rate(0, 3),
        "leaning": Rate(3, 3),
    }
    assert "0 of 3 3 of 3" in text_of(page(ledgered, confirmed(ledgered)).split('id="compare"')[1])


@pytest.mark.parametrize(("flipped", "level"), [(0, 0), (1, 1), (3, 2), (6, 3)])
def test_a_rate_is_shaded_by_thirds(flipped: int, level: int) -> None:
    assert Rate(flipped, 6).level == level


def test_findings_beyond_the_ninth_are_listed_in_words() -> None:
    ledgered = shaken()
    many = [confirmed(ledgered, number=number, object_class=f"class {number}") for number in range(1, 12)]
    html = page(ledgered, *many)
    assert html.count('<article class="card finding') == 9
    assert html.count("<li>") == 2
    places = re.findall(r' id="([^"]+)"', html)
    assert len(set(places)) == len(places)


def test_shades_follow_the_size_of_a_loss_and_not_its_interval() -> None:
    made = summarize(recorded_run(fake_config(), shaken(20).items), shaken(20).items)
    [row] = class_rows(made)
    steady, leaning = row.cells["steady"], row.cells["leaning"]
    assert steady is not None
    assert leaning is not None
    assert (steady.text, steady.level) == ("0", 0)
    assert (leaning.text, leaning.level) == ("−100", 3)
    titles = [row.title for row in kind_rows(made)]
    assert titles[0] == "background"
    assert titles[-2:] == ["reconstruction", "placebo"]


def test_the_table_of_models_names_the_class_that_loses_most() -> None:
    leaning, steady = model_rows(summarize(recorded_run(fake_config(), shaken().items), shaken().items))
    assert (leaning.name, leaning.right, leaning.worst) == ("leaning", "100 % → 0 %", "sled 100 % → 0 %")
    assert (steady.name, steady.worst) == ("steady", "–")


def test_quiet_controls_are_trusted_and_loud_ones_are_not() -> None:
    quiet = trust(summarize(recorded_run(fake_config(), shaken().items), shaken().items))
    assert quiet.good
    assert "✓" in quiet.badge
    assert quiet.text.startswith("The editor alone changes 0 % of the answers at most; a change of wording")
    loud = Ledgered()
    loud.add("a", "reconstruction", after=SHAKEN)
    loud.add("a", edit_type="background", after=SHAKEN)
    told = trust(summarize(recorded_run(fake_config(), loud.items), loud.items))
    assert not told.good
    assert "no placebo was kept" in told.text


def test_a_run_without_controls_or_edits_is_not_trusted() -> None:
    empty = Ledgered()
    empty.add("a", edit_type="background", state="failed", code="x", result=None)
    told = trust(summarize(recorded_run(fake_config(), empty.items), empty.items))
    assert not told.good
    assert "no control with nothing changed was made" in told.text.lower()


def test_findings_are_handed_on_as_csv() -> None:
    ledgered = shaken()
    rows = list(csv.DictReader(io.StringIO(findings_csv([confirmed(ledgered), a_finding(number=2)]))))
    assert [(row["number"], row["state"], row["confirmed_loss"]) for row in rows] == [
        ("1", "breaks", "0.62"),
        ("2", "suspected", ""),
    ]
    assert rows[0]["sentence"] == a_finding().sentence


@pytest.mark.fault("B31", "T14")
def test_a_spreadsheet_reads_no_formula() -> None:
    [row] = csv.DictReader(io.StringIO(findings_csv([a_finding(added="=1+1", taken_for=None)])))
    assert (row["added"], row["taken_for"]) == ("'=1+1", "")


def test_the_first_screen_is_handed_on_as_markdown() -> None:
    ledgered = shaken()
    finding = confirmed(ledgered)
    made = report_md(with_findings(ledgered, finding), [finding])
    assert made.startswith("# 1 of 2 models breaks when one thing in the image changes.\n")
    assert "| leaning | ✗ breaks | takes sleds for boats once “grass” becomes “snow”: 4 of 4 images." in made
    assert "1. ✗ breaks: leaning takes" in made
    evil = a_finding(sentence="<script>|*")
    assert "\\<script\\>\\|\\*" in report_md(with_findings(ledgered, evil), [evil])


def test_a_run_that_goes_on_with_another_names_it() -> None:
    ledgered = shaken()
    run = recorded_run(fake_config(), ledgered.items).model_copy(update={"parent": "0123456789abcdef"})
    summary = summarize(run, ledgered.items)
    assert "continues run 01234567" in text_of(render(summary, run, ledgered.items, ledgered.world.store.get))
    assert "continues run" not in text_of(page(ledgered))


def test_suspicions_are_told_with_their_measured_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgered = shaken()
    monkeypatch.setattr(headline, "SUSPECTED", None)
    assert "In validation" not in page(ledgered, a_finding())
    measured = Estimate(estimate=0.84, low=0.72, high=0.92, n=57)
    monkeypatch.setattr(headline, "SUSPECTED", measured)
    said = "In validation 48 of 57 such suspicions were true bugs (84 %, 95 % interval 72 to 92 %)."
    assert said in text_of(page(ledgered, a_finding()))
    assert said in report_md(with_findings(ledgered, a_finding()), [a_finding()])
    assert said not in text_of(page(ledgered, confirmed(ledgered)))


def test_a_run_without_verdicts_has_its_lines_in_markdown() -> None:
    ledgered = Ledgered()
    ledgered.add("a", edit_type="background", state="failed", code="x", result=None)
    made = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    assert report_md(made, []).startswith("# No verdict: no edit of 1 planned items survived")


def test_markdown_says_first_that_images_lie_outside_the_suite() -> None:
    ledgered = Ledgered()
    share = Estimate(estimate=0.9, low=0.6, high=1.0, n=10)
    outside = SuiteFitSummary(suite="miniature", outside=9, share=share, by={"image_text": 9})
    made = with_findings(ledgered, a_finding()).model_copy(update={"suite_fit": outside})
    assert report_md(made, []).splitlines()[2].startswith("9 of 10 images lie outside what suite 'miniature'")


def test_the_report_holds_both_files() -> None:
    html = page(shaken(), a_finding())
    files = dict(re.findall(r'download="([^"]+)" href="data:[^,]+,([^"]+)"', html))
    assert set(files) == {"findings.csv", "report.md"}
    assert base64.b64decode(files["findings.csv"]).decode().startswith("number,state,classifier,class")
