"""Claims about attention: its scale, its heads, and doing without the softmax."""

from experiments.claims.card import (
    EXACT,
    Claim,
    Part,
    difference,
    equivalence,
    guard,
    harmless,
    less,
    more,
    scaled,
    term,
)
from experiments.claims.cards.bases import (
    CODE,
    DELTA,
    LANGUAGE,
    LOSS,
    POINTS,
    RATES,
    RECALL,
    WIDE_RATES,
    quick,
    quick_prose,
)
from experiments.config import Spec

SENSITIVITY = "lr_sensitivity:validation/loss"
UNIT_VARIANCE = LANGUAGE.replace({
    "model.init": Spec("xavier"), "model.embedding_scale": "sqrt_d_model", "model.logit_scale": "inverse_sqrt_d_model",
})


LANGUAGE_TASK = {"task": LANGUAGE.task, "train.batch_size": 16, "train.steps": 400, "train.eval_every": 100}


def _recall(heads: int, pairs: int) -> dict[str, object]:
    return {"model.n_heads": heads, "task": Spec("recall", length=32, n_pairs=pairs, vocab=32)}


LEARNED = guard([term("4 heads, 6 lookups", "test/accuracy", 1.0)], "hardly anything was learned", at_least=0.5)

claims = (
    Claim(
        name="sqrt-dk-saturation",
        statement="Without division by sqrt(d_head) the softmax saturates and training suffers.",
        source="Vaswani et al. 2017, section 3.2.1 and footnote 4.",
        scope="decoders with Xavier weights, one head of width 64 against four of width 16",
        check="experiments.claims.exact.scaling:saturation",
        baseline=UNIT_VARIANCE.replace({"model.n_heads": 1}), rates=WIDE_RATES,
        arms={
            "scaled wide": {}, "unscaled wide": {"model.scaling": "none"},
            "scaled narrow": {"model.n_heads": 4}, "unscaled narrow": {"model.n_heads": 4, "model.scaling": "none"},
        },
        parts=[
            Part(name="variance", says="q.k has variance d_head at the start", kind="exact", rule=EXACT),
            Part(name="unit-variance", says="with q and k of unit variance, rows saturate unless scaled", kind="exact",
                 rule=EXACT),
            Part(name="small-init", says="they saturate with GPT-2's initial weights, too", kind="exact", rule=EXACT),
            Part(name="slower", says="at its best learning rate, the unscaled model ends with a higher loss (width 64)",
                 kind="quality", rule=difference(less("scaled wide", "unscaled wide"), DELTA, LOSS)),
            Part(name="sensitive", says="the unscaled model is more sensitive to the learning rate (width 64)",
                 kind="stability", rule=difference(less("scaled wide", "unscaled wide", SENSITIVITY), 0.02, LOSS)),
            Part(name="width", says="the harm grows with the width of a head", kind="quality", primary=False,
                 rule=difference([*less("scaled wide", "unscaled wide"),
                                  *scaled(less("scaled narrow", "unscaled narrow"), -1)], DELTA, LOSS)),
        ],
        presets=quick_prose(rates=[3e-3, 3e-2]),
    ),
    Claim(
        name="wrong-scale",
        statement="Dividing by sqrt(d_model) in place of sqrt(d_head) hurts.",
        source="A common slip; Vaswani et al. 2017 divide by sqrt(d_k).",
        scope="decoders with four heads, so scores start with a quarter of their variance",
        check="experiments.claims.exact.scaling:wrong_scale",
        baseline=UNIT_VARIANCE, rates=RATES, second={"task": CODE},
        arms={"d_head": {}, "d_model": {"model.scaling": "sqrt_d_model"}},
        parts=[
            Part(name="start", says="attention starts nearly uniform", kind="exact", rule=EXACT),
            Part(name="loss", says="it ends with a higher loss", kind="quality",
                 rule=difference(less("d_head", "d_model"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="heads-vs-lookups",
        statement="Several heads beat one of the same total width when several things must be looked up.",
        source="Vaswani et al. 2017, table 3 (A); Michel et al. 2019 and Liu et al. 2021 for the contrary.",
        scope="associative recall with two and with six questions an example",
        baseline=RECALL.replace(_recall(1, 6)), rates=RATES, metric="test/accuracy", goal="max",
        arms={f"{h} heads, {m} lookups": _recall(h, m) for m in (6, 2) for h in (1, 2, 4, 8)},
        parts=[
            Part(name="four-heads", says="four heads beat one at six lookups", kind="quality",
                 rule=difference(more("4 heads, 6 lookups", "1 heads, 6 lookups"), POINTS, "accuracy", LEARNED)),
            Part(name="interaction", says="the gain of four heads is larger at six lookups than at two", kind="quality",
                 rule=difference([*more("4 heads, 6 lookups", "1 heads, 6 lookups"),
                                  *scaled(more("4 heads, 2 lookups", "1 heads, 2 lookups"), -1)], POINTS, "accuracy",
                                 LEARNED)),
            Part(name="two-heads", says="two heads beat one at six lookups", kind="quality", primary=False,
                 rule=difference(more("2 heads, 6 lookups", "1 heads, 6 lookups"), POINTS, "accuracy", LEARNED)),
            Part(name="eight-heads", says="eight heads beat one at six lookups", kind="quality", primary=False,
                 rule=difference(more("8 heads, 6 lookups", "1 heads, 6 lookups"), POINTS, "accuracy", LEARNED)),
        ],
        presets=quick(150, rates=[]),
    ),
    Claim(
        name="heads-language",
        statement="Several heads are better than one in a language model, too.",
        source="Vaswani et al. 2017, table 3 (A); Michel et al. 2019 for the contrary after training.",
        scope="character language models of two layers, one total width",
        baseline=LANGUAGE, rates=RATES,
        arms={f"{heads} head{'s' * (heads > 1)}": {"model.n_heads": heads} for heads in (4, 1, 2, 8)},
        parts=[
            Part(name="four-heads", says="four heads end with a lower loss than one", kind="quality",
                 rule=difference(less("4 heads", "1 head"), DELTA, LOSS)),
            Part(name="two-heads", says="two heads end with a lower loss than one", kind="quality", primary=False,
                 rule=difference(less("2 heads", "1 head"), DELTA, LOSS)),
            Part(name="eight-heads", says="eight heads end with a lower loss than four", kind="quality", primary=False,
                 rule=difference(less("8 heads", "4 heads"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="linear-attention",
        statement="Linear attention is as good as softmax attention.",
        source="Katharopoulos et al. 2020, arXiv:2006.16236; Arora et al. 2023 for the contrary on recall.",
        scope="associative recall of four pairs, and English prose",
        baseline=RECALL, rates=RATES, metric="test/loss",
        arms={
            "softmax": {}, "linear": {"model.attention": "linear"},
            "softmax prose": LANGUAGE_TASK, "linear prose": {**LANGUAGE_TASK, "model.attention": "linear"},
        },
        parts=[
            Part(name="recall", says="it recalls as well: accuracy is at most two points lower", kind="quality",
                 rule=harmless(more("softmax", "linear"), POINTS, "accuracy", guard(
                     [term("softmax", "test/accuracy", 1.0)], "even softmax has hardly learned it", at_least=0.5))),
            Part(name="prose", says="its loss on prose is the same within 0.02 nats", kind="quality",
                 rule=equivalence(less("linear prose", "softmax prose"), 0.02, LOSS)),
            Part(name="gap-differs", says="it loses more on recall than on prose", kind="quality", primary=False,
                 rule=difference([term("linear", "test/loss", 1.0), term("softmax", "test/loss", -1.0),
                                  *less("linear prose", "softmax prose")], DELTA, LOSS)),
        ],
        presets=quick(150, rates=[]),
    ),
)  # fmt: skip
