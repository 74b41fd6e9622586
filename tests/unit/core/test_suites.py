"""The model suites: each paper's figures, strictness, and no code that depends on a suite's name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pydantic import ValidationError

from counterpose_core.bug_hunt.descriptions import baseline_template
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import TextualInversionPreset
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_core.suite import EditorSuite, load_suite
from counterpose_core.suite_files import suite_names
from counterpose_core.text.class_prompts import fill
from counterpose_gateway.methods.bug_hunt.estimate import most_captions, shares_of
from fakes.suite_servers import SERVERS

ROOT = Path(__file__).parents[3]
TABLE_6_SWEEP = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_loads_and_is_named_after_its_file(name: str) -> None:
    suite = load_suite(name, SERVERS)
    assert suite.name == name
    assert suite.description
    assert suite.transforms is not None or suite.editor.default_preset in suite.editor.presets


def test_the_default_the_papers_and_the_larger_editor_have_suites() -> None:
    assert {
        "miniature",
        "photographs",
        "lance",
        "dataset-interfaces",
        "discovering-bugs",
        "sdxl",
        "api",
    } <= set(suite_names())


@pytest.mark.paper(
    "LANCE-S3-beam",
    "LANCE-T6-captioner",
    "LANCE-T6-min-caption",
    "LANCE-T6-max-caption",
    "LANCE-T6-repetition",
    "LANCE-T6-decoding",
    "LANCE-T6-beams",
)
def test_lance_captions_follow_table_6a() -> None:
    captioner = load_suite("lance").captioner
    assert captioner.model == "Salesforce/blip2-opt-2.7b"
    assert (captioner.beams, captioner.min_tokens, captioner.max_tokens) == (5, 20, 100)
    assert captioner.repetition_penalty == 1.0


@pytest.mark.paper("LANCE-S1-label-caption", "LANCE-C-prefix")
def test_lance_captions_start_like_the_released_code_and_use_the_label() -> None:
    captioner = load_suite("lance").captioner
    assert captioner.prefix == "a photo of"
    assert captioner.labelled_prefix == "a photo of a {label}"


@pytest.mark.parametrize("name", ["lance", "dataset-interfaces", "discovering-bugs", "sdxl"])
def test_captions_leave_room_for_the_two_special_tokens_of_the_text_encoder(name: str) -> None:
    assert load_suite(name).captioner.text_limit <= 77 - 2


@pytest.mark.paper("LANCE-T6-llm", "LANCE-C-temperature", "LANCE-C-new-tokens")
def test_lance_perturbs_with_llama_7b_and_an_adapter() -> None:
    perturber = load_suite("lance").perturber
    assert perturber is not None
    assert perturber.model == "huggyllama/llama-7b"
    assert perturber.adapter
    assert (perturber.temperature, perturber.top_k, perturber.max_new_tokens) == (1.0, 0, 400)


@pytest.mark.paper(
    "LANCE-T6-sd",
    "LANCE-T6-resolution",
    "LANCE-T6-steps",
    "LANCE-T6-reweight",
    "LANCE-T6-cross-replace",
    "LANCE-T6-self-replace",
    "LANCE-T6-guidance",
)
def test_lance_edits_follow_table_6c() -> None:
    editor = load_suite("lance").editor
    preset = PromptToPromptPreset.of(editor.presets["lance"])
    assert (editor.model, editor.resolution) == ("CompVis/stable-diffusion-v1-4", 512)
    assert (preset.inversion, preset.steps, preset.guidance) == ("null-text", 50, 7.5)
    assert (preset.cross_replace, preset.self_replace) == (0.8, TABLE_6_SWEEP)
    assert preset.word_weight == 2.0
    assert editor.default_preset == "lance"


@pytest.mark.paper("LANCE-C-inner-steps")
def test_lance_inversion_uses_the_released_inner_optimisation() -> None:
    preset = PromptToPromptPreset.of(load_suite("lance").editor.presets["lance"])
    assert (preset.inner_steps, preset.inner_learning_rate, preset.inner_tolerance) == (10, 1e-2, 1e-5)


@pytest.mark.paper("LANCE-T6-tau", "LANCE-T6-img-sim", "LANCE-T6-img-text", "LANCE-C-clip")
def test_lance_gate_thresholds_follow_table_6c() -> None:
    scorer = load_suite("lance").scorer
    assert scorer.clip == "open_clip:ViT-L-14"
    assert (scorer.gate.direction, scorer.gate.image_image, scorer.gate.image_text) == (0.2, 0.7, 0.2)
    assert scorer.gate.closer


@pytest.mark.parametrize("name", ["lance", "dataset-interfaces", "discovering-bugs", "sdxl"])
def test_published_suites_screen_images_above_the_image_text_threshold(name: str) -> None:
    scorer = load_suite(name).scorer
    assert scorer.objectionable is not None
    assert scorer.objectionable > scorer.gate.image_text


def test_the_miniature_does_not_screen_images() -> None:
    assert load_suite("miniature").scorer.objectionable is None


@pytest.mark.paper("LANCE-T6-epsilon")
def test_lance_filters_text_at_epsilon() -> None:
    text = load_suite("lance").scorer.text
    assert (text.class_similarity, text.word_similarity) == (0.5, 0.5)


def test_lance_tests_timm_models() -> None:
    assert load_suite("lance").classifiers.allow_timm


@pytest.mark.paper("BUGS-S3-prompt")
def test_discovering_bugs_draws_and_captions_from_the_paper_s_prompt() -> None:
    suite = load_suite("discovering-bugs")
    template = baseline_template(suite.editor.photo_prompt, "insect")
    assert fill(template, "fly") == "a realistic photograph of a fly (insect)."
    # Captions of failures go on from words that the prompt begins with.
    assert suite.captioner.labelled_prefix.format(label="fly") == "a realistic photograph of a fly"
    assert suite.classifiers.allow_timm
    # The paper has no language model: hunts of this suite draw the label alone.
    assert "perturber" not in suite.services
    request = BugHuntCreate(classifiers=["timm:resnet50"], labels=["fly"], seed=0)
    varied = shares_of(request, suite).varied
    assert varied == 0
    assert most_captions(request, varied) == most_captions(request.model_copy(update={"vary": 0.0}), 0)


@pytest.mark.paper("DI-C-model", "DI-C-guidance")
def test_dataset_interfaces_generates_with_stable_diffusion_2_at_768() -> None:
    editor = load_suite("dataset-interfaces").editor
    assert (editor.model, editor.resolution) == ("stabilityai/stable-diffusion-2", 768)
    preset = PromptToPromptPreset.of(editor.presets[editor.default_preset])
    assert (preset.steps, preset.guidance) == (50, 7.5)


@pytest.mark.paper("DI-C-sampler")
def test_dataset_interfaces_sampling_matches_the_released_code() -> None:
    generation = load_suite("dataset-interfaces").editor.generation
    assert (generation.scheduler, generation.steps, generation.guidance) == (
        "EulerDiscreteScheduler",
        50,
        7.5,
    )


@pytest.mark.paper("DI-C-steps", "DI-C-rate", "DI-C-decay", "DI-C-batch", "DI-C-vectors")
def test_dataset_interfaces_token_learning_matches_the_released_code() -> None:
    preset = load_suite("dataset-interfaces").editor.textual_inversion
    assert (preset.steps, preset.learning_rate, preset.weight_decay) == (3000, 5e-4, 1e-2)
    assert (preset.batch, preset.flip, preset.vectors, preset.pin_norm) == (1, 0.5, 1, True)


@pytest.mark.paper("DI-C-templates")
def test_dataset_interfaces_draws_from_27_object_templates() -> None:
    templates = load_suite("dataset-interfaces").editor.textual_inversion.templates
    assert (templates.name, len(templates.prompts), len(set(templates.prompts))) == ("object", 27, 27)
    assert templates.prompts[0] == "a photo of a <class>"


def test_token_learning_defaults_match_the_released_code() -> None:
    paper = load_suite("dataset-interfaces").editor.textual_inversion
    default = TextualInversionPreset()
    assert default.model_copy(update={"templates": paper.templates}) == paper
    assert load_suite("lance").editor.textual_inversion == default


@pytest.mark.paper("DI-C-clip")
def test_dataset_interfaces_filters_with_vit_h_14() -> None:
    suite = load_suite("dataset-interfaces")
    assert suite.scorer.clip == "open_clip:ViT-H-14"
    assert "perturber" not in suite.services


def test_the_lance_preset_has_the_papers_values_in_the_miniature() -> None:
    miniature, paper = load_suite("miniature"), load_suite("lance").editor.presets["lance"]
    assert miniature.editor.presets["lance"] == paper
    assert miniature.editor.default_preset == "quick"


def test_the_miniature_null_text_preset_is_lance_at_its_own_guidance() -> None:
    presets = load_suite("miniature").editor.presets
    ours = {"guidance", "cross_replace", "token_alignment", "weighted_words", "injection_end"}
    tuned = presets["null-text"].model_dump(include=ours)
    assert presets["lance"].model_copy(update=tuned) == presets["null-text"]


@pytest.mark.paper("LANCE-C-p2p-alignment", "LANCE-C-p2p-occurrences", "LANCE-C-p2p-ends")
def test_only_the_lance_presets_edit_attention_as_the_released_code() -> None:
    for editor in (load_suite(name, SERVERS).editor_part for name in suite_names()):
        for name, preset in ({} if editor is None else editor.presets).items():
            if not preset.loads_weights:
                continue
            own = PromptToPromptPreset.of(preset)
            found = {own.token_alignment, own.weighted_words, own.injection_end}
            assert found == ({"released"} if name.startswith("lance") else {"words", "added", "exact"})


def test_the_miniature_learns_tokens_from_a_third_of_the_papers_samples() -> None:
    paper, own = (load_suite(name).editor.textual_inversion for name in ("dataset-interfaces", "miniature"))
    assert own.steps * own.batch * 3 <= paper.steps * paper.batch
    assert (own.weight_decay, own.flip, own.pin_norm) == (paper.weight_decay, paper.flip, paper.pin_norm)


def test_the_miniature_quick_preset_inverts_directly_in_a_quarter_of_the_steps() -> None:
    presets = load_suite("miniature").editor.presets
    quick, direct = (PromptToPromptPreset.of(presets[name]) for name in ("quick", "direct"))
    assert quick == direct.model_copy(update={"steps": quick.steps, "spacing": "trailing"})
    assert 4 * quick.steps <= direct.steps


def test_the_miniature_preview_preset_is_quick_with_previews() -> None:
    editor = load_suite("miniature").editor
    assert editor.preview_decoder == "preview"
    assert editor.presets["preview"] == editor.presets["quick"].model_copy(update={"preview": True})


def test_the_miniature_draws_images_again_by_the_preset_that_draws_its_noise() -> None:
    editor = load_suite("miniature").editor
    assert editor.redraw_preset == editor.presets["virtual-quick"]
    assert load_suite("lance").editor.redraw_preset is None


@pytest.mark.parametrize("name", ["quick", "no-such-preset"])
def test_images_are_drawn_again_only_by_a_preset_that_draws(name: str) -> None:
    editor = load_suite("miniature").editor.model_dump()
    with pytest.raises(ValidationError, match=f"redraw '{name}' is not a preset that draws its noise"):
        EditorSuite.model_validate(editor | {"redraw": name})


def test_the_miniature_has_one_control_and_three_biased_classifiers() -> None:
    names = set(load_suite("miniature").classifiers.models)
    assert any(name.startswith("unbiased") for name in names)
    assert len([name for name in names if name.startswith("leaning")]) >= 3


def test_an_unknown_suite_is_refused_listing_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match=r"'nonsense'.*miniature"):
        load_suite("nonsense")


@pytest.mark.parametrize("name", ["../lance", "suites/lance", "", "lance.TOML"])
def test_a_path_is_not_a_suite_name(name: str) -> None:
    with pytest.raises(UnknownModel):
        load_suite(name)


def test_a_suite_can_be_loaded_from_a_user_file(tmp_path: Path) -> None:
    shipped = ROOT / "services/counterpose_core/suites/lance.toml"
    own = tmp_path / "own.toml"
    own.write_text(shipped.read_text(encoding="utf-8").replace("steps = 50", "steps = 30"), encoding="utf-8")
    assert PromptToPromptPreset.of(load_suite(str(own)).editor.presets["lance"]).steps == 30


def test_a_misspelt_field_of_a_suite_is_refused(tmp_path: Path) -> None:
    shipped = ROOT / "services/counterpose_core/suites/lance.toml"
    own = tmp_path / "own.toml"
    own.write_text(shipped.read_text(encoding="utf-8").replace("beams", "beam_size"), encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"captioner\.beam_size: no such field"):
        load_suite(str(own))


def test_quick_presets_invert_directly_and_sweep_three_values() -> None:
    for name, preset, steps in (
        ("miniature", "quick", 5),
        ("miniature", "direct", 20),
        ("lance", "quick", 20),
    ):
        quick = PromptToPromptPreset.of(load_suite(name).editor.presets[preset])
        assert (quick.inversion, quick.steps, len(quick.self_replace)) == ("direct", steps, 3)


def comparisons_with_a_suite_s_name(tree: ast.AST) -> list[int]:
    """Lines that compare something with the name of a suite."""
    names = set(suite_names())
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        for constant in ast.walk(side)
        if isinstance(constant, ast.Constant) and constant.value in names
    ]


def test_no_code_branches_on_a_suite_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for root in ("clients", "gateway", "services")
        for path in (ROOT / root).rglob("*.py")
        for line in comparisons_with_a_suite_s_name(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_a_branch_on_a_suite_name_is_detected() -> None:
    assert comparisons_with_a_suite_s_name(ast.parse("if suite.name == 'lance':\n    pass")) == [1]
