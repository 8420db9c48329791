"""Claims that need no seeds: decided in seconds by measuring the code itself."""

from experiments.claims.card import EXACT, Claim, Part, ratio

HERE = "experiments.claims.exact"

claims = (
    Claim(
        name="mask-leak",
        statement="A wrong attention mask shows the model its own answers; the right one hides the future.",
        source="Vaswani et al. 2017, section 3.2.3; libraries differ in what True means in a mask.",
        scope="untrained and briefly trained decoders on random tokens, where no loss below ln V can be honest",
        check=f"{HERE}.masks:leak",
        parts=[
            Part(name="right-mask", says="under the model's own mask the future has no influence and random tokens "
                 "stay unpredictable", kind="exact", rule=EXACT),
            Part(name="wrong-mask", says="an inverted mask and one off by one leak, and the loss falls below ln V",
                 kind="exact", rule=EXACT),
            Part(name="batchnorm", says="batch normalisation over time leaks the future in training", kind="exact",
                 rule=EXACT),
        ],
    ),
    Claim(
        name="accum-equals-batch",
        statement="Accumulating gradients over micro-batches is the same as one large batch.",
        source="Folklore; a known bug where lengths differ: huggingface/transformers pull request 34191.",
        scope="gradients of a small decoder in float32, without batch statistics",
        check=f"{HERE}.accumulation:equals_batch",
        parts=[
            Part(name="token-weighted", says="weighted by tokens it is the same, whatever the lengths", kind="exact",
                 rule=EXACT),
            Part(name="mean-of-means", says="the mean of micro-batch means is the same for equal lengths and wrong for "
                 "different ones", kind="exact", rule=EXACT),
        ],
    ),
    Claim(
        name="attention-memory-scaling",
        statement="Attention needs memory in proportion to the square of the length and to the number of heads.",
        source="Vaswani et al. 2017, table 1; Dao et al. 2022 (fused); Katharopoulos et al. 2020 (linear).",
        scope="bytes that one layer remembers for its backward pass, CPU, float32, width 64, lengths 512 to 2048",
        check=f"{HERE}.memory:attention",
        parts=[
            Part(name="written-out", says="written out, bytes grow with L squared and with the heads", kind="exact",
                 rule=EXACT),
            Part(name="fused", says="fused attention, too, grows with L squared", kind="exact", rule=EXACT),
            Part(name="linear", says="linear attention grows with L", kind="exact", rule=EXACT),
        ],
    ),
    Claim(
        name="recomputing-trades-time",
        statement="Recomputing activations gives the same gradients with far less memory, for about a third more time.",
        source="Chen et al. 2016, arXiv:1604.06174.",
        scope="a decoder of 8 layers, width 64, dropout 0.1, CPU",
        check=f"{HERE}.memory:recomputing",
        parts=[
            Part(name="same-gradients", says="gradients are the same, dropout included", kind="exact", rule=EXACT),
            Part(name="less-memory", says="it remembers at most half as much", kind="exact", rule=EXACT),
            Part(name="time", says="a step takes at most half as long again", kind="cost", rule=ratio(1.5)),
        ],
    ),
    Claim(
        name="amp-halves-memory",
        statement="Mixed precision halves the memory of training.",
        source="Folklore; see pytorch issue 61173 for the contrary.",
        scope="bytes of weights, gradients, optimiser state, remembered activations and casts of weights, bf16 "
              "autocast on CPU",
        check=f"{HERE}.memory:mixed_precision",
        parts=[
            Part(name="activations", says="remembered activations shrink, casts of weights left out", kind="exact",
                 rule=EXACT),
            Part(name="all", says="all bytes of training halve, with few activations and with many", kind="exact",
                 rule=EXACT),
        ],
    ),
    Claim(
        name="uniform-attention",
        statement="A head that attends to everything alike has learned nothing.",
        source="Folklore; low entropy is the trouble in Zhai et al. 2023, arXiv:2303.06296.",
        scope="one head by construction, 33 tokens of 4 kinds",
        check=f"{HERE}.uniform:attention",
        parts=[
            Part(name="retrieval", says="asked for one token, it does no better than chance", kind="exact", rule=EXACT),
            Part(name="everywhere", says="asked for the most frequent token, it does no better than chance",
                 kind="exact", rule=EXACT),
        ],
    ),
    Claim(
        name="decoding-knobs",
        statement="Temperature, top-k, top-p, penalties and beams do what their papers say.",
        source="Fan et al. 2018; Holtzman et al. 2019; Keskar et al. 2019; Wu et al. 2016.",
        scope="the decoding code on random logits and an untrained decoder",
        check=f"{HERE}.decoding:knobs",
        parts=[
            Part(name="temperature", says="above 1 flattens, near 0 is greedy", kind="exact", rule=EXACT),
            Part(name="top-k", says="keeps exactly k tokens", kind="exact", rule=EXACT),
            Part(name="top-p", says="keeps the fewest tokens that reach p", kind="exact", rule=EXACT),
            Part(name="repetition-penalty", says="never makes a seen token likelier, also where its logit is negative",
                 kind="exact", rule=EXACT),
            Part(name="beams", says="one beam is greedy, eight find text at least as likely", kind="exact", rule=EXACT),
            Part(name="length-penalty", says="a larger length penalty gives longer text", kind="exact", rule=EXACT),
            Part(name="cache", says="a cache of keys and values changes no token", kind="exact", rule=EXACT),
        ],
    ),
)  # fmt: skip
