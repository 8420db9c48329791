"""The three models: sizes, pooling, who may build them."""

import pytest
import torch

from tests.transformer.tiny import config, model, tokens
from transformer import DecoderLM, Encoder, EncoderDecoder, ModelConfig, Spec, build
from transformer.costs import count_parameters


def paper(d, heads, d_ff, layers, vocab):
    return ModelConfig(
        architecture="encoder_decoder", d_model=d, n_heads=heads, d_ff=d_ff, n_layers=layers, dropout=0.1,
        positional=Spec("sinusoidal"), feedforward=Spec("relu"), placement=Spec("post"), init=Spec("xavier"),
        embedding_scale="sqrt_d_model",
    )


def closed_form(d, d_ff, layers, vocab):
    attention, feedforward, norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder = layers * (attention + feedforward + 2 * norm)
    decoder = layers * (2 * attention + feedforward + 3 * norm)
    return vocab * d + encoder + decoder  # one table for source, target and head; sinusoids have no parameters


def test_the_papers_base_model_has_the_parameters_of_the_closed_form():
    made = build(paper(512, 8, 2048, 6, 37000), vocab_size=37000, max_len=512, seed=0, device="meta")
    assert count_parameters(made) == {"total": 63_082_496, "non_embedding": 63_082_496 - 37000 * 512}
    assert closed_form(512, 2048, 6, 37000) == 63_082_496


def test_the_papers_base_model_runs():
    made = build(paper(512, 8, 2048, 6, 100), vocab_size=100, max_len=16, seed=0).eval()
    assert made(tokens(1, 4), tokens(1, 3)).shape == (1, 3, 100)
    assert sum(p.numel() for p in made.parameters()) == closed_form(512, 2048, 6, 100)


def test_a_decoder_has_the_parameters_of_the_closed_form():
    made = build(ModelConfig(), vocab_size=65, max_len=64, seed=0)
    d, d_ff = 64, 256
    layer = 4 * (d * d + d) + 2 * d * d_ff + d_ff + d + 2 * 2 * d
    assert count_parameters(made) == {"total": (65 + 64) * d + 2 * layer + 2 * d, "non_embedding": 2 * layer + 2 * d}


@pytest.mark.parametrize("architecture,kind", [
    ("decoder", DecoderLM), ("encoder", Encoder), ("encoder_decoder", EncoderDecoder),
])
def test_each_architecture_builds_its_model(architecture, kind):
    made = model(architecture=architecture)
    assert type(made) is kind
    assert type(made(*made.dry_inputs(2, 5))) is torch.Tensor


def test_a_classifier_needs_its_number_of_classes():
    with pytest.raises(ValueError, match="an encoder is a classifier and needs n_classes"):
        build(config(architecture="encoder"), vocab_size=5, max_len=5, seed=0)


def test_pooling_takes_the_mean_over_kept_tokens_or_the_first_of_them():
    keep = torch.tensor([[0, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    x = tokens(length=6)
    for pooling, expected in (("mean", lambda h: h[0, 1:4].mean(0)), ("first", lambda h: h[0, 1])):
        made = model(architecture="encoder", pooling=pooling)
        logits = made.head(expected(made.encoder(x, keep)))
        torch.testing.assert_close(made(x, keep)[0], logits)
        everything = torch.ones_like(keep)
        torch.testing.assert_close(made(x, everything), made(x), atol=1e-6, rtol=1e-5)


def test_memory_is_normed_once_by_its_own_stack():
    made = model(architecture="encoder_decoder")
    memory = made.encode(tokens())
    torch.testing.assert_close(memory.std(-1, unbiased=False), torch.ones(2, 10), atol=5e-2, rtol=0)
    assert torch.equal(made(tokens(), tokens(seed=1)), made(None, tokens(seed=1), memory=memory))


def test_the_model_never_shifts():
    made = model(tied=False)
    x = tokens()
    y = x.clone()
    y[:, 7] = (y[:, 7] + 1) % 13
    same = (made(x) == made(y)).all(-1)
    assert same[:, :7].all()
    assert not same[:, 7:].any()


def test_scales_multiply_embeddings_and_logits():
    plain, scaled = model(positional="none"), model(positional="none", embedding_scale=3.0)
    torch.testing.assert_close(scaled.decoder.embedding(tokens()), 3 * plain.decoder.embedding(tokens()))
    wide = model(embedding_scale="sqrt_d_model")
    assert wide.decoder.embedding.multiplier == 4.0
    assert type(wide.decoder.embedding.multiplier) is float
    torch.testing.assert_close(model(logit_scale="inverse_sqrt_d_model")(tokens()), model()(tokens()) / 4)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 16), (16, 1), (16, 16)])
def test_lengths_of_one_and_of_the_most_work(lengths):
    made = model(architecture="encoder_decoder", max_len=16)
    source, length = lengths
    assert made(tokens(length=source), tokens(length=length)).shape == (2, length, 13)


def test_a_package_import_needs_no_torch():
    import subprocess
    import sys

    code = "import sys, transformer, transformer.config, transformer.registry; transformer.ModelConfig()\n"
    code += "assert 'torch' not in sys.modules; transformer.MultiHeadAttention; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import transformer

    with pytest.raises(AttributeError, match="module 'transformer' has no attribute 'attention_is_all'"):
        transformer.attention_is_all  # noqa: B018
