"""GPT-2, LLaMA and T5 from state dicts in their public layout, against their forward passes written here in plain torch."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer import convert

D, H, V, N = 12, 3, 17, 2
K = D // H


@pytest.fixture(autouse=True)
def fixed_numbers():
    with torch.random.fork_rng():
        torch.random.manual_seed(0)
        yield


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float64) * 0.4


def heads(x, n=H):
    return x.view(*x.shape[:2], n, -1).transpose(1, 2)


def attend(q, k, v, scale, bias=0.0, causal=True):
    scores = q @ k.transpose(-1, -2) * scale + bias
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=torch.float64).triu(1)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def gpt2_weights():
    w = {"wte.weight": rand(V, D), "wpe.weight": rand(10, D), "ln_f.weight": rand(D), "ln_f.bias": rand(D)}
    for i in range(N):
        for name, shape in {
            "attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, 4 * D), "mlp.c_proj": (4 * D, D)
        }.items():
            w |= {f"h.{i}.{name}.weight": rand(*shape), f"h.{i}.{name}.bias": rand(shape[1])}
        for name in ("ln_1", "ln_2"):
            w |= {f"h.{i}.{name}.weight": rand(D), f"h.{i}.{name}.bias": rand(D)}
        w[f"h.{i}.attn.bias"] = torch.ones(1, 1, 10, 10).tril()
    return {f"transformer.{name}": tensor for name, tensor in w.items()}


def gpt2_forward(w, ids, head):
    w = {name.removeprefix("transformer."): tensor for name, tensor in w.items()}

    def norm(x, name):
        return F.layer_norm(x, (D,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def conv(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(N):
        q, k, v = conv(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(D, -1)
        x = x + conv(attend(heads(q), heads(k), heads(v), K**-0.5), f"h.{i}.attn.c_proj")
        h = conv(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + conv(h, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ head.T


@pytest.mark.parametrize("own_head", [False, True])
def test_gpt2(own_head):
    w, ids = gpt2_weights(), torch.randint(0, V, (2, 9))
    head = rand(V, D) if own_head else w["transformer.wte.weight"]
    expected = gpt2_forward(w, ids, head)
    made = convert.gpt2({**w, "lm_head.weight": head}, n_heads=H)
    torch.testing.assert_close(made(ids), expected, atol=1e-10, rtol=0)
    assert (made.head.weight is made.decoder.embedding.weight) != own_head
    if not own_head:
        torch.testing.assert_close(convert.gpt2(w, n_heads=H)(ids), expected, atol=1e-10, rtol=0)


def llama_weights(groups, k=K):
    w = {"model.embed_tokens.weight": rand(V, D), "model.norm.weight": rand(D), "lm_head.weight": rand(V, D)}
    for i in range(N):
        at = f"model.layers.{i}"
        for name, shape in {
            "self_attn.q_proj": (H * k, D), "self_attn.k_proj": (groups * k, D), "self_attn.v_proj": (groups * k, D),
            "self_attn.o_proj": (D, H * k), "mlp.gate_proj": (20, D), "mlp.up_proj": (20, D), "mlp.down_proj": (D, 20),
        }.items():
            w[f"{at}.{name}.weight"] = rand(*shape)
        w |= {f"{at}.{name}.weight": rand(D) for name in ("input_layernorm", "post_attention_layernorm")}
        w[f"{at}.self_attn.rotary_emb.inv_freq"] = rand(K // 2)
    return w


def rms(x, weight, eps=1e-6):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def rotate(x, base):
    length, k = x.shape[-2:]
    angles = torch.arange(length, dtype=torch.float64)[:, None] * base ** (-torch.arange(0, k, 2, dtype=torch.float64) / k)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def llama_forward(w, ids, base, groups):
    x = w["model.embed_tokens.weight"][ids]
    for i in range(N):
        p = {name.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): t for name, t in w.items()}
        h = rms(x, p["input_layernorm"])
        q = heads(h @ p["self_attn.q_proj"].T)
        k, v = (heads(h @ p[f"self_attn.{n}_proj"].T, groups).repeat_interleave(H // groups, 1) for n in "kv")
        x = x + attend(rotate(q, base), rotate(k, base), v, q.shape[-1]**-0.5) @ p["self_attn.o_proj"].T
        h = rms(x, p["post_attention_layernorm"])
        x = x + (F.silu(h @ p["mlp.gate_proj"].T) * (h @ p["mlp.up_proj"].T)) @ p["mlp.down_proj"].T
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


@pytest.mark.parametrize("groups", [H, 1])
@pytest.mark.parametrize("base, k", [(10000.0, K), (500.0, K), (500.0, 2), (10000.0, 6)])
def test_llama(groups, base, k):
    w, ids = llama_weights(groups, k), torch.randint(0, V, (2, 9))
    made = convert.llama(w, n_heads=H, base=base)
    torch.testing.assert_close(made(ids), llama_forward(w, ids, base, groups), atol=1e-10, rtol=0)


def t5_weights(gated, k=K):
    w = {"shared.weight": rand(V, D)}
    for stack in ("encoder", "decoder"):
        w |= {f"{stack}.embed_tokens.weight": w["shared.weight"], f"{stack}.final_layer_norm.weight": rand(D)}
        w[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = rand(8, H)
        kinds = ["SelfAttention", "EncDecAttention"] if stack == "decoder" else ["SelfAttention"]
        for i in range(N):
            for j, kind in enumerate(kinds):
                w |= {f"{stack}.block.{i}.layer.{j}.{kind}.{n}.weight": rand(H * k, D) for n in "qkv"}
                w[f"{stack}.block.{i}.layer.{j}.{kind}.o.weight"] = rand(D, H * k)
            dense = f"{stack}.block.{i}.layer.{len(kinds)}.DenseReluDense"
            w |= {f"{dense}.{n}.weight": rand(20, D) for n in (("wi_0", "wi_1") if gated else ("wi",))}
            w[f"{dense}.wo.weight"] = rand(D, 20)
            w |= {f"{stack}.block.{i}.layer.{j}.layer_norm.weight": rand(D) for j in range(len(kinds) + 1)}
    return w


def t5_bias(w, stack, length):
    """Buckets 8, largest distance 20, one distance at a time."""
    table = w[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    bias = torch.zeros(H, length, length, dtype=torch.float64)
    for i in range(length):
        for j in range(length):
            n, first, buckets = (abs(j - i), 4 * (j > i), 4) if stack == "encoder" else (max(i - j, 0), 0, 8)
            exact = buckets // 2
            if n >= exact:
                n = min(buckets - 1, exact + int(math.log(n / exact) / math.log(20 / exact) * (buckets - exact)))
            bias[:, i, j] = table[first + n]
    return bias


def t5_stack(w, stack, ids, memory=None):
    x = w["shared.weight"][ids]
    bias = t5_bias(w, stack, ids.shape[1])
    for i in range(N):
        p = {n.removeprefix(f"{stack}.block.{i}.layer.").removesuffix(".weight"): t for n, t in w.items()}
        j = 0
        for kind in ("SelfAttention", "EncDecAttention")[: 2 if stack == "decoder" else 1]:
            own = kind == "SelfAttention"
            h = rms(x, p[f"{j}.layer_norm"])
            q, k, v = (heads(y @ p[f"{j}.{kind}.{n}"].T) for n, y in (("q", h), *((n, h if own else memory) for n in "kv")))
            out = attend(q, k, v, 1.0, bias if own else 0.0, causal=own and stack == "decoder")
            x, j = x + out @ p[f"{j}.{kind}.o"].T, j + 1
        h = rms(x, p[f"{j}.layer_norm"])
        if f"{j}.DenseReluDense.wi" in p:
            h = (h @ p[f"{j}.DenseReluDense.wi"].T).relu()
        else:
            gate = F.gelu(h @ p[f"{j}.DenseReluDense.wi_0"].T, approximate="tanh")
            h = gate * (h @ p[f"{j}.DenseReluDense.wi_1"].T)
        x = x + h @ p[f"{j}.DenseReluDense.wo"].T
    return rms(x, w[f"{stack}.final_layer_norm.weight"])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("k", [K, 3, 7])
def test_t5(version, k):
    w = t5_weights(version == "1.1", k)
    source, ids = torch.randint(0, V, (2, 13)), torch.randint(0, V, (2, 11))
    hidden = t5_stack(w, "decoder", ids, t5_stack(w, "encoder", source))
    head = rand(V, D) if version == "1.1" else w["shared.weight"]
    expected = hidden @ head.T if version == "1.1" else (hidden * D**-0.5) @ head.T
    made = convert.t5({**w, "lm_head.weight": head}, n_heads=H, max_distance=20)
    torch.testing.assert_close(made(source, ids), expected, atol=1e-9, rtol=0)


def test_a_t5_with_stacks_of_different_depth_is_refused():
    w = {name: tensor for name, tensor in t5_weights(gated=False).items() if not name.startswith("decoder.block.1.")}
    with pytest.raises(ValueError, match="the encoder has 2 layers and the decoder 1; models here have one n_layers"):
        convert.t5(w, n_heads=H)


@pytest.mark.parametrize("rows", ["right", "left"])
def test_padding_of_whole_models_changes_no_real_token(rows):
    keep = torch.ones(3, 9, dtype=torch.bool)
    keep[1, 7:], keep[2, 2:] = False, False
    keep = keep.flip(1) if rows == "left" else keep
    ids = torch.randint(0, V, (3, 9))
    g, shared = gpt2_weights(), llama_weights(1)
    for made, forward in (
        (convert.gpt2(g, n_heads=H), lambda row: gpt2_forward(g, row, g["transformer.wte.weight"])),
        (convert.llama(shared, n_heads=H), lambda row: llama_forward(shared, row, 10000.0, 1)),
    ):
        out = made(ids, keep)
        for row, real in enumerate(keep):
            torch.testing.assert_close(out[row, real], forward(ids[row, real][None])[0], atol=1e-10, rtol=0)


def test_padding_of_t5_on_either_side_changes_no_real_token():
    w = t5_weights(gated=True)
    source, ids = torch.randint(0, V, (3, 13)), torch.randint(0, V, (3, 11))
    ks, kd = torch.ones(3, 13, dtype=torch.bool), torch.ones(3, 11, dtype=torch.bool)
    ks[0, 9:], ks[1, :6], kd[1, 8:], kd[2, :4] = False, False, False, False
    made = convert.t5(w, n_heads=H, max_distance=20)
    out = made.decoder(ids, kd, memory_BSD=made.encode(source, ks), memory_keep=ks)
    for row in range(3):
        alone = t5_stack(w, "decoder", ids[row, kd[row]][None], t5_stack(w, "encoder", source[row, ks[row]][None]))
        torch.testing.assert_close(out[row, kd[row]], alone[0], atol=1e-9, rtol=0)


def test_weights_that_do_not_fit_are_refused_by_name():
    w = gpt2_weights()
    with pytest.raises(ValueError, match="the model has no place for h.0.attn.extra"):
        convert.gpt2({**w, "transformer.h.0.attn.extra": rand(2)}, n_heads=H)
    del w["transformer.h.1.mlp.c_fc.bias"]
    with pytest.raises(ValueError, match="the weights hold no 'h.1.mlp.c_fc.bias'"):
        convert.gpt2(w, n_heads=H)
    with pytest.raises(ValueError, match="the weights do not fit"):
        convert.llama({**llama_weights(H), "model.layers.0.mlp.up_proj.weight": rand(21, D)}, n_heads=H)
