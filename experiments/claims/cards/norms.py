"""Claims about normalisation, its place, and the residual stream."""

from experiments.claims.card import EXACT, Claim, Part, difference, equivalence, harmless, less, rates, ratio, scaled
from experiments.claims.cards.bases import CODE, DELTA, LANGUAGE, LOSS, RATES, WIDE_RATES, quick_prose

SENSITIVITY = "lr_sensitivity:validation/loss"


def _placed(place: str, warmup: float) -> dict[str, object]:
    return {"model.placement": place, "train.warmup": warmup}


def _deep(place: str, depth: int) -> dict[str, object]:
    return {"model.placement": place, "model.n_layers": depth}


claims = (
    Claim(
        name="prenorm-warmup",
        statement="Post-LN needs a warm-up; Pre-LN does without.",
        source="Xiong et al. 2020, arXiv:2002.04745; Nguyen and Salazar 2019, arXiv:1910.05895.",
        scope="decoders of six layers with Xavier weights",
        baseline=LANGUAGE.replace({
            "model.n_layers": 6, "model.d_model": 32, "model.n_heads": 2, "model.init": "xavier",
            "model.embedding_scale": "sqrt_d_model", "model.logit_scale": "inverse_sqrt_d_model", "train.warmup": 0.1,
        }),
        rates=WIDE_RATES,
        arms={
            "pre, warm-up": {}, "pre, none": _placed("pre", 0.0),
            "post, warm-up": _placed("post", 0.1), "post, none": _placed("post", 0.0),
        },
        parts=[
            Part(name="interaction", says="a warm-up lowers the sensitivity to the learning rate more for Post-LN",
                 kind="stability", rule=difference([*less("post, warm-up", "post, none", SENSITIVITY),
                                                    *scaled(less("pre, warm-up", "pre, none", SENSITIVITY), -1)],
                                                   0.02, LOSS)),
            Part(name="failures", says="without a warm-up, Post-LN fails more often than Pre-LN", kind="stability",
                 rule=rates(["post, none"], ["pre, none"], 0.2)),
            Part(name="pre-free", says="without a warm-up, Pre-LN loses nothing at its best rate", kind="quality",
                 rule=harmless(less("pre, warm-up", "pre, none"), DELTA, LOSS)),
        ],
        presets=quick_prose(rates=[3e-3, 3e-2]),
    ),
    Claim(
        name="residual-depth",
        statement="Without residual connections deep transformers cannot be trained.",
        source="Dong et al. 2021, arXiv:2103.03404; He et al. 2016.",
        scope="decoders of 2 and 12 layers, width 32",
        check="experiments.claims.exact.depth:rank_collapse",
        baseline=LANGUAGE.replace({"model.d_model": 32, "model.n_heads": 2, "train.steps": 300}),
        rates=RATES,
        arms={
            "with, 2 layers": {}, "without, 2 layers": _deep("none", 2),
            "with, 12 layers": _deep("pre", 12), "without, 12 layers": _deep("none", 12),
        },
        parts=[
            Part(name="rank", says="untrained and without residuals, positions become alike with depth", kind="exact",
                 rule=EXACT),
            Part(name="deep", says="at 12 layers the loss without residuals is higher by half a nat", kind="quality",
                 rule=difference(less("with, 12 layers", "without, 12 layers"), 0.5, LOSS)),
            Part(name="grows", says="the harm is larger at 12 layers than at 2", kind="quality",
                 rule=difference([*less("with, 12 layers", "without, 12 layers"),
                                  *scaled(less("with, 2 layers", "without, 2 layers"), -1)], 0.1, LOSS)),
        ],
        presets=quick_prose(rates=[]),
    ),
    Claim(
        name="rmsnorm-equals-layernorm",
        statement="RMSNorm is as good as LayerNorm, and cheaper.",
        source="Zhang and Sennrich 2019, arXiv:1910.07467; Narang et al. 2021.",
        scope="character language models; time of the norm alone, forward and backward, on this machine's kernels",
        check="experiments.claims.exact.cost:norms",
        baseline=LANGUAGE, rates=RATES, looks=[10, 20], second={"task": CODE},
        arms={"layernorm": {}, "rmsnorm": {"model.norm": "rmsnorm"}},
        parts=[
            Part(name="quality", says="their losses agree within 0.01 nats", kind="quality",
                 rule=equivalence(less("rmsnorm", "layernorm"), DELTA, LOSS)),
            Part(name="time", says="RMSNorm takes less time than LayerNorm", kind="cost", rule=ratio(1.0)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="batchnorm-worse",
        statement="Batch normalisation is worse than layer normalisation in language models.",
        source="Shen et al. 2020 (PowerNorm), arXiv:2003.07845.",
        scope="scored with running averages, as a model in use would be; in training it sees the future",
        baseline=LANGUAGE, rates=RATES,
        arms={"layernorm": {}, "batchnorm": {"model.norm": "batchnorm"}},
        parts=[
            Part(name="loss", says="it ends with a higher loss", kind="quality",
                 rule=difference(less("layernorm", "batchnorm"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="postnorm-better",
        statement="Post-LN ends better than Pre-LN where it trains at all.",
        source="Nguyen and Salazar 2019 (WMT'14 high-resource), arXiv:1910.05895.",
        scope="two layers, with a warm-up",
        baseline=LANGUAGE, rates=RATES, second={"task": CODE},
        arms={"pre": {}, "post": {"model.placement": "post"}},
        parts=[
            Part(name="loss", says="Post-LN ends with a lower loss", kind="quality",
                 rule=difference(less("post", "pre"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
)  # fmt: skip
