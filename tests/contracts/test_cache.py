"""A cache changes the cost and nothing else: cached logits equal uncached ones, in chunks of any size."""

import pytest
import torch

from tests.contracts.cases import NAMES, combinations, config, model, tokens
from transformer.generation.cache import Cache

pytestmark = pytest.mark.filterwarnings("ignore:norm .* leaks across time")
CHUNKS = [[1] * 12, [3, 3, 3, 3], [5, 1, 2, 4], [1, 11], [12]]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def in_chunks(made, x, sizes, keep=None, before=()):
    cache, parts, start = Cache(), [], 0
    for size in sizes:
        so_far = None if keep is None else keep[:, : start + size]
        parts.append(made(*before, x[:, start : start + size], keep=so_far, cache=cache))
        start += size
    return torch.cat(parts, 1)


@pytest.mark.parametrize("positional", NAMES["positional"])
@pytest.mark.parametrize("attention", NAMES["attention"])
def test_cached_logits_equal_uncached_ones(positional, attention):
    names = {**NAMES, "positional": [positional], "attention": [attention]}
    for fields in combinations("positional", "attention", "norm", names=names):
        made = model(config(**fields, init="xavier")).eval()
        x = tokens(length=12)
        whole = made(x)
        for sizes in CHUNKS:
            torch.testing.assert_close(in_chunks(made, x, sizes), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("placement", NAMES["placement"])
def test_cached_logits_equal_uncached_ones_in_every_placement(placement):
    made = model(config(placement=placement, init="xavier")).eval()
    x = tokens(length=12)
    for sizes in CHUNKS:
        torch.testing.assert_close(in_chunks(made, x, sizes), made(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", NAMES["attention"])
@pytest.mark.parametrize("positional", NAMES["positional"])
def test_a_left_padded_batch_gives_what_each_row_gives_alone(positional, attention):
    names = {**NAMES, "positional": [positional], "attention": [attention]}
    for fields in combinations("positional", "attention", names=names):
        made = model(config(**fields, init="xavier")).eval()
        x = tokens(length=12)
        keep = torch.arange(12) >= torch.tensor([[5], [0]])
        logits = in_chunks(made, x, [7, 1, 4], keep)
        torch.testing.assert_close(logits[:1, 5:], made(x[:1, 5:]), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(logits[1:], made(x[1:]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", NAMES["attention"])
def test_an_encoder_decoder_reads_its_source_once(attention):
    made = model(config(architecture="encoder_decoder", attention=attention, init="xavier")).eval()
    source, x = tokens(length=9, seed=1), tokens(length=12)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    memory = made.encode(source, mask)
    whole = made(source, x, mask)
    torch.testing.assert_close(made(None, x, mask, memory=memory), whole)
    calls = []
    for layer in made.decoder.layers:
        layer.cross_attention.key.register_forward_hook(lambda *_: calls.append(1))
    cache, parts = Cache(), []
    for t in range(12):
        parts.append(made(None, x[:, t : t + 1], mask, cache=cache, memory=memory))
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)
    assert len(calls) == len(made.decoder.layers)


@pytest.mark.parametrize("attention", NAMES["attention"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_reordered_rows_continue_what_they_became(attention, architecture):
    made = model(config(attention=attention, architecture=architecture, init="xavier")).eval()
    crosses = architecture == "encoder_decoder"
    x, y, source = tokens(3, 8), tokens(4, 2, seed=3), tokens(3, 6, seed=2)
    index = torch.tensor([2, 0, 0, 1])
    memory = (made.encode(source),) if crosses else ()
    cache = Cache()
    made(*((None, x, None, None, cache, *memory) if crosses else (x, None, cache)))
    cache.reorder(index)
    memory = tuple(m[index] for m in memory)
    continued = made(*((None, y, None, None, cache, *memory) if crosses else (y, None, cache)))
    whole = torch.cat([x[index], y], 1)
    expected = made(*((source[index], whole) if crosses else (whole,)))[:, 8:]
    torch.testing.assert_close(continued, expected, atol=1e-5, rtol=1e-5)


def test_a_fresh_cache_knows_nothing_of_an_earlier_prompt():
    made = model(config(positional="rope")).eval()
    first = in_chunks(made, tokens(length=12), [4, 8])
    in_chunks(made, tokens(length=9, seed=5), [9])
    assert torch.equal(in_chunks(made, tokens(length=12), [4, 8]), first)


def test_a_cache_and_recomputed_activations_exclude_each_other():
    made = model(config()).train()
    made.decoder.recompute = True
    with pytest.raises(ValueError, match="exclude each other"):
        made(tokens(), cache=Cache())


def test_the_state_of_linear_attention_does_not_grow():
    made = model(config(attention="linear")).eval()
    cache = Cache()
    for t in range(12):
        made(tokens(length=12)[:, t : t + 1], cache=cache)
        memory, _ = cache.layer(0)
        assert memory.keys is None
        assert memory.state.shape == (2, 2, 8, 9)
