"""Claims about the feed-forward layer."""

from experiments.claims.card import Claim, Part, difference, less, mean_less
from experiments.claims.cards.bases import CODE, DELTA, LANGUAGE, LOSS, RATES, quick_prose

UNGATED, GATED = ["relu", "gelu"], ["reglu", "geglu", "swiglu", "bilinear"]
EARLY = {"@0.25": "after a quarter of the steps", "@0.5": "after half of the steps"}

claims = (
    Claim(
        name="gating-not-activation",
        statement="Gated feed-forward layers (SwiGLU and its kin) beat ungated ones of the same size; GELU beats ReLU.",
        source="Shazeer 2020, arXiv:2002.05202; Narang et al. 2021.",
        scope="equal parameters by d_ff, 4 and 8/3 times the width",
        baseline=LANGUAGE.replace({"model.feedforward": "relu"}), rates=RATES, second={"task": CODE},
        arms={name: {} if name == "relu" else {"model.feedforward": name} for name in [*UNGATED, *GATED]},
        parts=[
            Part(name="gating", says="the gated ones end with a lower loss, on average", kind="quality",
                 rule=difference(mean_less(GATED, UNGATED), DELTA, LOSS)),
            Part(name="gelu", says="GELU ends with a lower loss than ReLU", kind="quality",
                 rule=difference(less("gelu", "relu"), DELTA, LOSS)),
            *(Part(name=f"gating{at}", says=f"the gated ones are ahead {when}", kind="quality", primary=False,
                   rule=difference(mean_less(GATED, UNGATED, f"validation/loss{at}"), DELTA, LOSS))
              for at, when in EARLY.items()),
        ],
        presets=quick_prose(),
    ),
)  # fmt: skip
