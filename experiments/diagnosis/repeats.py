"""Does what a trained model writes repeat itself more than the text that it was to learn?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from experiments.diagnosis.case import Case
from experiments.diagnosis.data_checks import running
from experiments.diagnosis.finding import Finding
from experiments.seeds import torch_stream
from experiments.training.looking.probes import rows_of
from transformer.generation.decode import generate
from transformer.generation.settings import Decode

GRAM = 4  # tokens
PROMPTS, LEAST, MOST = 8, 24, 96  # prompts, and new tokens after each
MORE = 0.25  # share of repeated n-grams above that of held-out text

GREEDY, PLAIN = "greedy", "sample,temperature=1.0"
WAYS = {  # of decoding, as `generate --decode` takes them
    GREEDY: Decode(), PLAIN: Decode(temperature=1.0),
    "sample,temperature=0.8,top_p=0.9": Decode(temperature=0.8, top_p=0.9),
    "greedy,repetition_penalty=1.3": Decode(repetition_penalty=1.3),
}


def repeats_itself(case: Case) -> Iterator[Finding]:
    """Greedy text of a stored run against the held-out text after the same prompts; nothing without running text.

    Source: loops of likeliest text as in Holtzman et al. 2020, arXiv:1904.09751; limits are ours.
    """
    if case.weights is None or case.trained is None or case.task.n_classes is not None:
        return
    batch = rows_of(case.task.evaluations("validation", case.config.seed)[0].batches[0], PROMPTS)
    start = max(GRAM, batch.inputs.shape[1] // 4)
    n = min(MOST, batch.inputs.shape[1] - start)
    if n < LEAST or not running(batch) or not (batch.keep is None or bool(batch.keep.all())):
        return
    prompts, real = batch.inputs[:, :start], repeated(batch.inputs[:, start : start + n].tolist())
    shares = {way: repeated(_written(case, case.trained, prompts, decode, n)) for way, decode in WAYS.items()}
    if shares[GREEDY] <= real + MORE:
        return
    itself = shares[PLAIN] > real + MORE
    told = ", ".join(f"{way} {share:.0%}" for way, share in shares.items())
    yield Finding(
        "repeats_itself", "harmful" if itself else "hint",
        "the model repeats itself whatever the decoding" if itself else "greedy text repeats itself",
        f"{GRAM}-grams that came before in the same text: {told}; held-out text {real:.0%} (limit {MORE:.0%} more); "
        f"{len(prompts)} texts of {n} tokens",
        "even samples run in circles, so the model itself has learned to: training data that repeats itself, or a "
        "model that sees too little of what came before" if itself else
        "the likeliest next token, again and again, leads into a loop; samples leave it, so it is the decoding, and a "
        "model that is not sure enough of what comes next",
        "look at the other findings and at the training data; more varied data, more train.steps" if itself else
        f"--decode {_best(shares)} ({shares[_best(shares)]:.0%}); train.steps={4 * case.config.train.steps} or a "
        "larger model makes loops rarer",
    )


def repeated(texts: Sequence[Sequence[int]]) -> float:
    """Share of the n-grams of GRAM tokens that came before in their own text; 0 where there is none."""
    every = [[tuple(text[i : i + GRAM]) for i in range(len(text) - GRAM + 1)] for text in texts]
    total = sum(len(grams) for grams in every)
    return 1 - sum(len(set(grams)) for grams in every) / total if total else 0.0


def _written(case: Case, model: nn.Module, prompts: Tensor, decode: Decode, n: int) -> list[list[int]]:
    given = {name: getattr(decode, name) for name in decode.model_fields_set}
    settings = Decode(max_new_tokens=n, eos_id=case.task.eos_id, pad_id=case.task.pad_id, **given)
    found = generate(model, prompts, settings, generator=torch_stream("diagnosis", "repeats"))
    return [texts[0] for texts in found.lists()]


def _best(shares: dict[str, float]) -> str:
    return min((way for way in shares if way not in (GREEDY, PLAIN)), key=lambda way: shares[way])
