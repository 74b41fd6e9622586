import numpy as np
import pytest

from fakes.tiny_pipeline import WORDS

# isort: split
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from faultline_core.errors import PromptTooLong
from faultline_miniature.training.tokenizer import build_tokenizer
from faultline_services.editor.pictures import EXACT_PSNR_DB, centre_crop, psnr_db
from faultline_services.editor.prompts import PromptEncoder


def text_encoder(positions: int, vocabulary: int) -> CLIPTextModel:
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=positions, bos_token_id=1, eos_token_id=3,
            pad_token_id=0,
        )
    )  # fmt: skip


def letters() -> CLIPTokenizer:
    """CLIP's own tokenizer with a vocabulary of letters: every word has as many tokens as letters."""
    alphabet = "abcdefghijklmnopqrstuvwxyz-"
    tokens = ["<|startoftext|>", "<|endoftext|>", *alphabet, *(letter + "</w>" for letter in alphabet)]
    return CLIPTokenizer(
        vocab={token: index for index, token in enumerate(tokens)}, merges=[], model_max_length=12
    )


def test_clips_own_tokenizer_tells_words_apart() -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    prompt = prompts.tokenize("Red bus")
    assert prompt.words == (None, 0, 0, 0, 1, 1, 1, None)
    assert prompt.spans() == [(1, 2, 3), (4, 5, 6)]
    assert prompts.length == 12


def test_a_prompt_that_does_not_fit_is_refused_and_named() -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    with pytest.raises(PromptTooLong, match="'abcdefghijk' has 13 tokens; the text encoder reads 12"):
        prompts.tokenize("abcdefghijk")


def test_embeddings_do_not_depend_on_what_else_is_embedded() -> None:
    tokenizer = build_tokenizer(WORDS)
    prompts = PromptEncoder(tokenizer, text_encoder(24, len(tokenizer)))
    together = prompts.encode(["a red bus", "", "a tram on the grass", "a red bus"])
    assert together.shape == (4, 24, 8)
    assert together[0].equal(together[3])
    assert together[2].allclose(prompts.encode(["a tram on the grass"])[0], atol=1e-6)


def test_the_centre_is_cropped_and_kept_exactly_at_its_own_size() -> None:
    wide = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)
    assert np.array_equal(centre_crop(wide, 4), wide[:, 2:6])
    assert centre_crop(wide, 2).shape == (2, 2, 3)


def test_equal_pictures_have_the_highest_ratio() -> None:
    grey = np.full((4, 4, 3), 100, dtype=np.uint8)
    assert psnr_db(grey, grey) == EXACT_PSNR_DB
    assert psnr_db(grey, grey + 1) == pytest.approx(48.13, abs=0.01)
