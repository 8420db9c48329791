"""The walk on paper: every matrix product with its shapes."""

import pytest
import torch

from tests.transformer.tiny import model, rand
from transformer import ModelConfig, build
from transformer.trace import Product, trace


def walk(rows):
    return [(row.where.split(".", 3)[-1] + (f" {row.what}" if row.what else ""), row.left, row.right, row.out) for row in rows]


@pytest.fixture(scope="module")
def wide():
    return build(ModelConfig(d_model=512, n_heads=8, n_layers=1), vocab_size=100, max_len=32, seed=0, device="meta")


def test_a_decoder_is_the_walk_that_a_learner_does(wide):
    assert walk(trace(wide)) == [
        ("self_attention.query", (2, 10, 512), (512, 512), (2, 10, 512)),
        ("self_attention.key", (2, 10, 512), (512, 512), (2, 10, 512)),
        ("self_attention.value", (2, 10, 512), (512, 512), (2, 10, 512)),
        ("self_attention.attention scores", (2, 8, 10, 64), (2, 8, 64, 10), (2, 8, 10, 10)),
        ("self_attention.attention weighted sum", (2, 8, 10, 10), (2, 8, 10, 64), (2, 8, 10, 64)),
        ("self_attention.output", (2, 10, 512), (512, 512), (2, 10, 512)),
        ("feedforward.up", (2, 10, 512), (512, 2048), (2, 10, 2048)),
        ("feedforward.down", (2, 10, 2048), (2048, 512), (2, 10, 512)),
        ("head", (2, 10, 512), (512, 100), (2, 10, 100)),
    ]


def test_rows_tell_parameters_and_flops(wide):
    query, scores = trace(wide)[0], trace(wide)[3]
    assert query == Product(
        "decoder.layers.0.self_attention.query", "", (2, 10, 512), (512, 512), (2, 10, 512),
        parameters=512 * 512 + 512, flops=2 * 20 * 512 * 512,
    )
    assert scores == Product(
        "decoder.layers.0.self_attention.attention", "scores", (2, 8, 10, 64), (2, 8, 64, 10), (2, 8, 10, 10),
        parameters=0, flops=2 * 2 * 8 * 10 * 10 * 64, fused=True,
    )


def test_every_weight_matrix_but_tables_is_in_the_walk():
    made = model(architecture="encoder_decoder", feedforward="swiglu", tied=False)
    linear = sum(
        sum(p.numel() for p in m.parameters()) for m in made.modules() if isinstance(m, torch.nn.Linear)
    )
    assert sum(row.parameters for row in trace(made)) == linear


def test_attention_written_out_has_the_same_rows(monkeypatch, wide):
    from transformer.attention import MultiHeadAttention

    fused = walk(trace(wide))
    forward = MultiHeadAttention.forward
    monkeypatch.setattr(
        MultiHeadAttention, "forward", lambda self, *args, **options: forward(self, *args, **{**options, "need_weights": True})
    )
    rows = trace(wide)
    assert walk(rows) == fused
    assert not any(row.fused for row in rows)


def test_cross_attention_reads_the_source():
    made = model(architecture="encoder_decoder", n_layers=1)
    rows = trace(made, torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long))
    cross = [row for row in rows if "cross_attention" in row.where]
    assert [(row.left, row.out) for row in cross] == [
        ((2, 5, 16), (2, 5, 16)), ((2, 7, 16), (2, 7, 16)), ((2, 7, 16), (2, 7, 16)),
        ((2, 2, 5, 8), (2, 2, 5, 7)), ((2, 2, 5, 7), (2, 2, 5, 8)), ((2, 5, 16), (2, 5, 16)),
    ]
    assert rows[0].where == "encoder.layers.0.self_attention.query"


def test_products_of_any_spelling_are_seen():
    class Spelled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(rand(4, 5, dtype=torch.float32))

        def forward(self, x):
            a = x @ self.w
            b = torch.einsum("bi,ij->bj", x, self.w)
            c = torch.addmm(self.w[0], x, self.w)
            d = torch.bmm(x[None], self.w[None])
            return a + b + c + d[0] + torch.einsum("...i,ij->...j", x, self.w) + torch.mm(x, self.w)

    rows = trace(Spelled(), torch.zeros(3, 4))
    assert [row.flops for row in rows] == [2 * 3 * 4 * 5] * 6
    assert {row.out for row in rows} == {(3, 5), (1, 3, 5)}


def test_a_trace_computes_nothing_and_changes_nothing():
    made = model(positional="sinusoidal", max_len=8)
    before = {name: tensor.clone() for name, tensor in [*made.named_parameters(), *made.named_buffers()]}
    trace(made, torch.zeros(1, 500, dtype=torch.long))
    after = dict([*made.named_parameters(), *made.named_buffers()])
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
