"""Claims about position: whether it is needed, which encoding is best, and which reaches beyond the trained length."""

from experiments.claims.card import EXACT, Claim, Part, difference, equivalence, harmless, less, more, scaled, term
from experiments.claims.cards.bases import CODE, DELTA, LANGUAGE, LOSS, ORDER, RATES, quick, quick_prose
from experiments.config import Spec

# amplitude 1 on embeddings of std 0.02 would lose for that alone
SINUSOID = Spec("sinusoidal", amplitude=0.02)
ENCODINGS: dict[str, object] = {
    "sinusoidal": SINUSOID, "none": "none", "relative": "relative", "rope": "rope", "alibi": "alibi",
}
BEYOND = LANGUAGE.replace({
    "task": Spec("text", corpus="austen", context=64, eval_tokens=8192, test_tokens=16384, eval_lengths=[128, 256]),
    "model.positional": SINUSOID,
})
SHORT_BEYOND = Spec("text", corpus="austen", context=32, eval_tokens=4096, test_tokens=8192, eval_lengths=[64, 128])


def _rise(arm: str, far: int, near: int) -> list[dict[str, object]]:
    return [term(arm, f"test/len_{far}/loss", 1.0), term(arm, f"test/len_{near}/loss", -1.0)]


def _half_of_sinusoidal(arm: str, far: int, near: int) -> list[dict[str, object]]:
    return [*scaled(_rise("sinusoidal", far, near), 0.5), *scaled(_rise(arm, far, near), -1)]


def _extrapolation(far: int, near: int) -> list[Part]:
    doublings = 2
    return [
        part
        for arm in ("alibi", "rope")
        for part in (
            Part(name=f"{arm}-less", says=f"{arm}: loss rises at most half as with sinusoids", kind="quality",
                 rule=difference(_half_of_sinusoidal(arm, far, near), DELTA, LOSS)),
            Part(name=f"{arm}-flat", says=f"{arm}: the loss rises by less than 0.01 nats per doubling", kind="quality",
                 rule=harmless(_rise(arm, far, near), doublings * DELTA, LOSS)),
        )
    ]  # fmt: skip


claims = (
    Claim(
        name="order-needs-position",
        statement="Attention sees a set: without positions it cannot tell who chases whom.",
        source="Vaswani et al. 2017, section 3.5; Haviv et al. 2022 for causal models.",
        scope="encoders with mean pooling on sentences of three words, and untrained decoders",
        check="experiments.claims.exact.order:needs_position",
        baseline=ORDER, metric="test/accuracy", goal="max",
        arms={"sinusoidal": {}, "none": {"model.positional": "none"}},
        parts=[
            Part(name="encoder-blind", says="an encoder without positions gives both orders one answer", kind="exact",
                 rule=EXACT),
            Part(name="decoder-blind", says="a causal decoder without positions cannot see the order of its prefix, "
                 "in one layer or two", kind="exact", rule=EXACT),
            Part(name="accuracy", says="with positions the encoder is right far more often", kind="quality",
                 rule=difference(more("sinusoidal", "none"), 0.3, "accuracy")),
        ],
        presets=quick(200, looks=[6]),  # both sides may be the same on every seed, which five seeds cannot decide
    ),
    Claim(
        name="causal-needs-position",
        statement="A causal language model needs a position encoding.",
        source="Folklore; Haviv et al. 2022, arXiv:2203.16634, and Kazemnejad et al. 2023 for the contrary.",
        scope="character language models of one, two and four layers",
        baseline=LANGUAGE, rates=RATES, second={"task": CODE},
        arms={
            f"{name}, {depth} layer{'s' * (depth > 1)}": {"model.positional": name, "model.n_layers": depth}
            for depth in (2, 1, 4) for name in ("rope", "none")
        },
        parts=[
            Part(name="one-layer", says="one layer: rotary positions lower the loss", kind="quality",
                 rule=difference(less("rope, 1 layer", "none, 1 layer"), DELTA, LOSS)),
            Part(name="four-layers", says="four layers: rotary positions lower the loss", kind="quality",
                 rule=difference(less("rope, 4 layers", "none, 4 layers"), DELTA, LOSS)),
            Part(name="depth", says="depth makes up for positions: the gain is smaller with four layers than with one",
                 kind="quality", rule=difference([*less("rope, 1 layer", "none, 1 layer"),
                                                  *scaled(less("rope, 4 layers", "none, 4 layers"), -1)], DELTA, LOSS)),
            Part(name="two-layers", says="two layers: rotary positions lower the loss", kind="quality", primary=False,
                 rule=difference(less("rope, 2 layers", "none, 2 layers"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="pe-extrapolation",
        statement="ALiBi and rotary positions work beyond the trained length.",
        source="Press et al. 2022, arXiv:2108.12409; Su et al. 2021; Kazemnejad et al. 2023. Learned positions end at "
        "the trained length and are left out.",
        scope="the same last characters of each window, read with up to four times the trained length before them",
        baseline=BEYOND, rates=RATES,
        arms={name: {} if name == "sinusoidal" else {"model.positional": spec} for name, spec in ENCODINGS.items()},
        parts=_extrapolation(256, 64),
        presets=quick(100, **{
            "baseline.task": SHORT_BEYOND, "parts": [part.to_dict() for part in _extrapolation(128, 32)],
        }),
    ),
    Claim(
        name="learned-equals-sinusoidal",
        statement="Learned and sinusoidal positions do equally well at the trained length.",
        source="Vaswani et al. 2017, table 3 (E): nearly identical results.",
        scope="character language models at their trained length",
        baseline=LANGUAGE.replace({"model.positional": SINUSOID}), rates=RATES, looks=[10, 20],
        arms={"sinusoidal": {}, "learned": {"model.positional": "learned"}},
        parts=[
            Part(name="loss", says="their losses agree within 0.01 nats", kind="quality",
                 rule=equivalence(less("learned", "sinusoidal"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="rope-better",
        statement="Rotary positions beat learned ones at the trained length.",
        source="Su et al. 2021, arXiv:2104.09864; EleutherAI 2021.",
        scope="character language models at their trained length",
        baseline=LANGUAGE.replace({"model.positional": "learned"}), rates=RATES, second={"task": CODE},
        arms={"learned": {}, "rope": {"model.positional": "rope"}},
        parts=[
            Part(name="loss", says="rotary positions end with a lower loss", kind="quality",
                 rule=difference(less("rope", "learned"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
)  # fmt: skip
