"""Prompts with a slot for learned vectors: the model's vocabulary does not change."""

from __future__ import annotations

import pytest
import torch

from fakes.tiny_pipeline import WORDS

# isort: split
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast

from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_services.editor.prompts import PromptEncoder
from evaluation.reference.same_answers import FLOAT32

pytestmark = pytest.mark.floats

WIDTH = 8
PLAIN = ["a red bus", "", "a tram on the grass", "a red bus"]


def text_encoder(vocabulary: int, positions: int = 24) -> CLIPTextModel:
    torch.manual_seed(0)
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary, hidden_size=WIDTH, intermediate_size=8, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=positions, bos_token_id=1, eos_token_id=3,
            pad_token_id=0,
        )
    )  # fmt: skip


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(WORDS)


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerFast) -> CLIPTextModel:
    return text_encoder(len(tokenizer))


@pytest.fixture
def prompts(tokenizer: PreTrainedTokenizerFast, model: CLIPTextModel) -> PromptEncoder:
    return PromptEncoder(tokenizer, model)


def vector_of(prompts: PromptEncoder, word: str) -> torch.Tensor:
    return prompts.mean_embedding(word)[None]


def test_a_slot_with_a_word_s_own_vector_encodes_like_that_word(prompts: PromptEncoder) -> None:
    words = [vector_of(prompts, word) for word in ("bus", "tram")]
    texts = ["a red <class> in the snow", "a photo of a <class>"]
    learned = prompts.encode_learned(texts, words)
    assert learned.allclose(prompts.encode(["a red bus in the snow", "a photo of a tram"]), atol=FLOAT32)
    assert not learned.requires_grad


def test_another_vector_changes_the_encoding_from_the_slot_on(prompts: PromptEncoder) -> None:
    token = torch.ones(1, WIDTH)
    learned = prompts.encode_learned(["a red <class> in the snow"], [token])[0]
    plain = prompts.encode(["a red bus in the snow"])[0]
    assert learned[:3].allclose(plain[:3], atol=FLOAT32)
    assert not learned[3:].allclose(plain[3:], atol=1e-2)


def test_several_vectors_encode_like_consecutive_words(prompts: PromptEncoder) -> None:
    token = torch.cat([vector_of(prompts, word) for word in ("red", "bus")])
    learned = prompts.encode_learned(["the <class> on grass"], [token])
    assert learned.allclose(prompts.encode(["the red bus on grass"]), atol=FLOAT32)
    prompt = prompts.tokenize("the <class> on grass", 2)
    assert prompt.words == (None, 0, 1, 1, 2, 3, None)
    assert prompt.ids[2:4] == (len(WORDS) + 5, len(WORDS) + 6)


def test_tokens_of_different_length_share_a_call(prompts: PromptEncoder) -> None:
    bus, red_tram = (
        vector_of(prompts, "bus"),
        torch.cat([vector_of(prompts, word) for word in ("red", "tram")]),
    )
    texts = ["a <class>", "the <class> in snow", "the <class> in snow", "a <class>"]
    tokens = [bus, red_tram, bus, red_tram]
    together = prompts.encode_learned(texts, tokens)
    for row, (text, token) in enumerate(zip(texts, tokens, strict=True)):
        assert together[row].allclose(prompts.encode_learned([text], [token])[0], atol=FLOAT32)


def test_a_thousand_tokens_share_a_table_and_equal_prompts_are_encoded_once(
    prompts: PromptEncoder, model: CLIPTextModel
) -> None:
    seen: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda module, inputs: seen.append((len(inputs[0]), len(module.get_input_embeddings().weight)))
    )
    tokens = list(torch.randn(1000, 1, WIDTH))
    embedded = prompts.encode_learned(["a <class>"] * 2000, tokens * 2)
    assert embedded.shape == (2000, 24, WIDTH)
    # These prompts use only start, end, padding and "a" of the vocabulary.
    assert seen == [(1000, 1000 + 4)]


def test_learned_tokens_do_not_change_the_loaded_module_or_plain_prompts(
    prompts: PromptEncoder, model: CLIPTextModel
) -> None:
    before = prompts.encode(PLAIN)
    weights = {name: each.clone() for name, each in model.state_dict().items()}
    table = model.get_input_embeddings().weight
    prompts.encode_learned(["a <class> on grass"], [torch.randn(2, WIDTH)])
    assert model.get_input_embeddings().weight is table
    assert all(each.equal(weights[name]) for name, each in model.state_dict().items())
    assert prompts.encode(PLAIN).allclose(before, atol=FLOAT32)


@pytest.mark.paper("DI-S3-inversion")
def test_gradients_reach_only_the_vectors(prompts: PromptEncoder, model: CLIPTextModel) -> None:
    vectors = torch.randn(3, 1, WIDTH, requires_grad=True)
    reader = prompts.slot_reader([("a <class>", 1), ("the <class> in snow", 1)])
    embedded = reader([0, 1, 1], [0, 2, 0], vectors)
    embedded.square().sum().backward()
    assert vectors.grad is not None
    reached = vectors.grad.flatten(1).norm(dim=1)
    assert reached[1] == 0
    assert float(reached[[0, 2]].min()) > 0
    assert all(each.grad is None and not each.requires_grad for each in model.parameters())


@pytest.mark.parametrize(
    ("text", "vectors", "message"),
    [
        ("a bus", 1, "no slots"),
        ("a <class> on a <class>", 1, "2 slots"),
        ("a <class>", 0, "no token to fill it"),
        ("a < Class >", 1, "misspells the class slot"),
        ("a < Class >", 0, "misspells the class slot"),
        ("a <class> <eos>", 1, "outside of its vocabulary"),
        ("a <class> of zebras", 1, "outside of its vocabulary"),
    ],
)
def test_mismatched_slots_and_tokens_are_refused(
    prompts: PromptEncoder, text: str, vectors: int, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        prompts.tokenize(text, vectors)


def test_every_vector_counts_towards_the_prompt_length(prompts: PromptEncoder) -> None:
    text = "a " * 20 + "<class>"
    assert len(prompts.tokenize(text, 2).ids) == prompts.length == 24
    with pytest.raises(PromptTooLong, match="25 tokens"):
        prompts.tokenize(text, 3)
    with pytest.raises(PromptTooLong, match="25 tokens"):
        prompts.encode_learned([text], [torch.zeros(3, WIDTH)])


@pytest.mark.fault("B32")
def test_no_text_encodes_to_a_slot_token(tokenizer: PreTrainedTokenizerFast) -> None:
    prompts = PromptEncoder(tokenizer, text_encoder(len(tokenizer)))
    for text in ("<class_0>", "<|class|>", str(len(tokenizer)), "<placeholder>"):
        assert max(prompts._tokenized(text).ids) < len(tokenizer)


@pytest.mark.paper("DI-C-init")
def test_a_token_starts_at_the_mean_of_its_words(prompts: PromptEncoder, model: CLIPTextModel) -> None:
    table = model.get_input_embeddings().weight
    ids = [WORDS.index(word) + 5 for word in ("red", "bus")]
    assert prompts.mean_embedding("Red bus").equal(table[ids].mean(dim=0))


@pytest.mark.fault("B25")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (" ", "reads no token"),
        ("zebra", "outside of its vocabulary"),
        ("a <class>", "slot"),
        ("<eos>", "outside of its vocabulary"),
    ],
)
def test_words_without_a_mean_embedding_are_refused(prompts: PromptEncoder, words: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        prompts.mean_embedding(words)


def test_text_around_a_slot_is_tokenized_as_in_the_whole_prompt() -> None:
    alphabet = "abcdefghijklmnopqrstuvwxyz-"
    tokens = ["<|startoftext|>", "<|endoftext|>", *alphabet, *(letter + "</w>" for letter in alphabet)]
    clip = CLIPTokenizer(
        vocab={token: index for index, token in enumerate(tokens)}, merges=[], model_max_length=20
    )
    prompts = PromptEncoder(clip, text_encoder(len(tokens), 20))
    slotted, whole = prompts.tokenize("a red <class> in Fog", 1), prompts.tokenize("a red z in fog")
    assert slotted.words == whole.words
    assert (*slotted.ids[:5], *slotted.ids[6:]) == (*whole.ids[:5], *whole.ids[6:])
    assert slotted.ids[5] == len(tokens)
