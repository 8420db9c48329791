"""What a head does, as a score for each of a few roles that people have found in trained transformers.

B batch, H heads, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.seeds import torch_stream
from experiments.tasks import Batch, Task
from experiments.training.looking.probes import Seen, attention_of

NEAR = 3  # places that count as local
WIDE = 4 * NEAR + 2  # keys that a query must see for that to mean anything: near ones are at most half of them
ROWS, LONGEST_HALF = 4, 32  # of the repeated random text

# Least score for the name, in the order in which names are given. The score of `uniform` is an entropy, of the
# others a share of the weight: a head without any preference gives 1 / n of it to each of n visible keys.
THRESHOLDS = {
    "induction": 0.4, "previous token": 0.4, "next token": 0.4, "itself": 0.5, "first token": 0.5, "uniform": 0.95,
    "local": 0.8,
}
MIXED = "mixed"


@dataclass(frozen=True)
class Role:
    """One head.

    Attributes:
        attention: path of its attention. head: number in it, from 0.
        role: the first name whose score reaches its threshold, else `mixed`.
        scores: role -> mean over real queries that may see at least 8 keys (or half of the most that any may see, if
            that is less); `local` from WIDE keys on.
    """

    attention: str
    head: int
    role: str
    scores: Mapping[str, float]


def roles(model: nn.Module, batch: Batch, task: Task) -> list[Role]:
    """Every head, scored on a batch and, for induction, on random text that comes twice.

    Source: previous-token and induction heads as in Olsson et al. 2022, arXiv:2209.11895; first-token heads as in
    Xiao et al. 2023, arXiv:2309.17453. Thresholds are ours.
    """
    induction = _induction(model, batch, task)
    found = []
    for seen in attention_of(model, batch):
        table = _scores(seen)
        if seen.name in induction:
            table["induction"] = induction[seen.name]
        for head in range(seen.weights.shape[1]):
            scores = {name: round(float(table[name][head]), 4) for name in THRESHOLDS if name in table}
            found.append(Role(seen.name, head, name_of(scores), scores))
    return found


def name_of(scores: Mapping[str, float]) -> str:
    """The role that scores say."""
    return next((name for name, least in THRESHOLDS.items() if scores.get(name, 0.0) >= least), MIXED)


def _scores(seen: Seen) -> dict[str, Tensor]:
    first = seen.visible & (seen.visible.cumsum(-1) == 1)
    found = {"first token": _share(seen, first), "uniform": seen.entropy()}
    if "cross" in seen.name:
        return found  # places of two texts have no distance
    at = torch.arange(seen.weights.shape[-1])
    distance = at[:, None] - at
    found |= {
        "previous token": _share(seen, distance == 1), "next token": _share(seen, distance == -1),
        "itself": _share(seen, distance == 0),
    }
    if int(seen.visible.sum(-1).max()) >= WIDE:  # in a short text everything is near
        found["local"] = _share(seen, distance.abs() <= NEAR, WIDE)
    return found


def _share(seen: Seen, where: Tensor, least: int = 8) -> Tensor:
    """(H,): mean weight on the keys where `where` (broadcast to (B, H, L, S)) holds, over rows with `least` keys."""
    rows = seen.rows(least).double()
    share_BHL = (seen.weights.double() * where).sum(-1)
    return (share_BHL * rows).sum((0, 2)) / rows.sum((0, 2)).clamp_min(1)


def _induction(model: nn.Module, batch: Batch, task: Task) -> dict[str, Tensor]:
    """(H,) by attention: weight on the token after the last occurrence of the same token; empty where there is none."""
    half = min(LONGEST_HALF, min(task.max_len, 4 * batch.inputs.shape[1]) // 2)
    if batch.source is not None or task.n_classes is not None or half < 4:
        return {}
    known = batch.inputs.unique()
    choice = torch.randint(len(known), (ROWS, half), generator=torch_stream("diagnosis", "repeated"))
    tokens = known[choice].repeat(1, 2)
    at = torch.arange(2 * half)
    where = (at[:, None] - at == half - 1) & (at[:, None] >= half)
    found = {}
    for seen in attention_of(model, Batch(tokens, tokens)):
        share_BHL = (seen.weights.double() * where).sum(-1)[:, :, half:]
        found[seen.name] = share_BHL.mean((0, 2))
    return found


def summary(found: Sequence[Role]) -> str:
    """`2 previous token, 1 induction, 5 mixed`."""
    names = [role.role for role in found]
    return ", ".join(f"{names.count(name)} {name}" for name in (*THRESHOLDS, MIXED) if name in names)
