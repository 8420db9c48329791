"""Claims about what trained models write."""

from experiments.claims.card import Claim, Part, difference, guard, term
from experiments.claims.cards.bases import LANGUAGE, quick

SHARE = "share of 4-grams"


def _fewer(than: str, method: str) -> list[dict[str, object]]:
    return [term("model", f"probe/{than}/repeated_4grams", 1.0), term("model", f"probe/{method}/repeated_4grams", -1.0)]


claims = (
    Claim(
        name="greedy-repeats",
        statement="Greedy and beam search repeat themselves; sampling does not.",
        source="Holtzman et al. 2019, arXiv:1904.09751.",
        scope="100 prompts of held-out prose a model, 48 characters each; the seed of the model is the unit",
        probe="experiments.claims.probes:repetition",
        baseline=LANGUAGE.replace({"train.steps": 1500, "train.eval_every": 500}), arms={"model": {}},
        parts=[
            Part(name="top-p", says="greedy text repeats ten points more of its 4-grams than top-p 0.9 does, and "
                 "top-p's text stays within 1 nat of prose under a reference model", kind="generation",
                 rule=difference(_fewer("greedy", "top_p"), 0.1, SHARE, guard(
                     [term("model", "probe/top_p/reference_loss", 1.0),
                      term("model", "probe/human/reference_loss", -1.0)],
                     "top-p's text is too unlike prose", at_most=1.0))),
            Part(name="penalty", says="a repetition penalty of 1.2 takes ten points off greedy text", kind="generation",
                 rule=difference(_fewer("greedy", "penalty"), 0.1, SHARE)),
            Part(name="beam", says="beam search, too, repeats ten points more than top-p", kind="generation",
                 primary=False, rule=difference(_fewer("beam", "top_p"), 0.1, SHARE)),
            Part(name="top-k", says="top-k 10 takes ten points off greedy text", kind="generation", primary=False,
                 rule=difference(_fewer("greedy", "top_k"), 0.1, SHARE)),
        ],
        presets=quick(200),
    ),
)  # fmt: skip
