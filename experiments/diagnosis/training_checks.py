"""Does training go well? Divergence, oscillation, overfitting, attention that stays uniform, a loss that stays put."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping

from torch import Tensor

from experiments.diagnosis.case import Case
from experiments.diagnosis.finding import Finding
from experiments.diagnosis.onset import growth
from experiments.diagnosis.trial import Trial
from experiments.training.looking.watch import by_layer

WORSE = 0.05  # of the distance from chance to the floor: a difference that counts
SPIKES, SPIKE_SHARE = 3, 0.02
RISE, RISE_SHARE = 0.1, 0.05  # of the validation loss above its least: nats, and share of it
GAP = 0.1  # nats between validation and training at the end
NO_GRADIENT = 1e-5  # of queries and keys over that of values: attention that cannot learn to choose
UNIFORM = 0.98  # entropy over the log of what may be seen
LEARNED = 0.5  # share of the way from chance to the floor
BELOW = 0.05  # nats: more than the scatter of a finite evaluation set
STILL = 0.02  # of the distance from chance to the floor: fallen in the last third, and so not at an end
BY_HEART = 0.5  # of chance: one batch counts as learned by heart below it


OWN_PARTS = "a component or task of one's own that does not keep its contract"
CONTRACTS = "see transformer/slots.py and experiments/tasks/task.py for shapes and types"


def crash(case: Case) -> Iterator[Finding]:
    """A step that raises, or a run that ended without a result."""
    failure = case.failure
    if failure is not None and failure.get("kind") == "out_of_memory":
        return  # memory says it, with numbers
    if failure is not None and failure.get("kind") != "interrupted":
        yield Finding(
            "failure", "broken", f"the last attempt {str(failure.get('kind')).replace('_', ' ')}",
            str(failure.get("error")), "the error says it; the whole traceback is in failure.json",
            "repair it and run the same command again",
        )
    elif not case.rows and not case.overlap and case.trial.error:
        yield Finding(
            "crash", "broken", "a training step raises an error", case.trial.error, OWN_PARTS, CONTRACTS,
        )


def divergence(case: Case) -> Iterator[Finding]:
    """Numbers that stop being numbers, or a loss that ends far above where it began: step, layer, last finite sizes."""
    if case.history.diverged is None:
        return
    told = case.history.diverged
    again = case.trial
    seen = again.diverged is not None
    where = again.look.first_not_finite() or "no layer (the loss is finite)" if seen else "not reached by the replay"
    finite = again.before if seen else again.look
    yield Finding(
        "divergence", "broken", "training diverged",
        f"{told['reason']}; first in: {where}; sizes at the step before: {finite.describe() or 'none'}; gradient "
        f"norms: {_norms(finite.gradients)}{growth(case.layers)}", _rate_cause(case), _rate_change(case),
    )


def _norms(gradients: dict[str, float]) -> str:
    return ", ".join(f"{name} {size:.3g}" for name, size in by_layer(gradients).items()) or "none"


def _rate_cause(case: Case) -> str:
    slow, lr = case.slow, case.slow_rate
    if slow.diverged is not None or slow.error:
        return f"not the learning rate alone: train.lr={lr:.1g} diverges as well"
    return (f"the learning rate is too large: the same {len(slow.losses)} steps at train.lr={lr:.1g} stay finite, at a "
            f"loss of {_end(slow):.3g}")


def _rate_change(case: Case) -> str:
    tested = case.range
    edge = "no rate" if tested.edge is None else f"rates from {tested.edge:.2g} on"
    least = f"least loss at {3 * tested.best:.2g}" if tested.best else "no rate lowered the loss"
    return (f"train.lr={case.slow_rate:.1g} or less (range test: {least}, {edge} made it rise), longer train.warmup, "
            "train.clip=1.0")


def _end(trial: Trial) -> float:
    tail = [loss for loss in trial.losses[-max(5, len(trial.losses) // 10):] if math.isfinite(loss)]
    return statistics.median(tail) if tail else math.inf


def oscillation(case: Case) -> Iterator[Finding]:
    """A loss that jumps or rises, and would not at a smaller rate."""
    history, span = case.history, max(case.chance - case.floor, 0.1)
    if history.diverged is not None or len(history.losses) < 10:
        return
    jumps = spikes([loss for _, loss in history.losses])
    jumpy = len(jumps) >= max(SPIKES, SPIKE_SHARE * len(history.losses))
    rises = history.last > history.first + WORSE * span
    if not (jumpy or rises or case.at_chance):
        return
    better = _end(case.trial) - _end(case.slow)
    if better <= WORSE * span:
        return
    norms = sorted(norm for _, norm in history.norms)
    clip, share = case.config.train.clip, history.clipped
    yield Finding(
        "oscillation", "harmful", "the loss jumps instead of falling" if jumpy or rises else "the loss does not fall",
        f"{len(jumps)} jumps in {len(history.losses)} steps (limit {SPIKES} and {SPIKE_SHARE:.0%}), loss "
        f"{history.first:.3g} at first and {history.last:.3g} at last; gradient norm: median "
        f"{_quantile(norms, 0.5):.3g}, 90 % {_quantile(norms, 0.9):.3g}, largest {_quantile(norms, 1.0):.3g}; "
        + (f"{share:.0%} of steps clipped at {clip:g}" if clip else "no clipping"),
        f"the learning rate is too large: the same {len(case.slow.losses)} steps at {case.slow_rate:.1g} end at "
        f"{_end(case.slow):.3g} instead of {_end(case.trial):.3g}", _rate_change(case),
    )


def too_good(case: Case) -> Iterator[Finding]:
    """A validation loss below what any model can reach: the answer is in the question."""
    floor, validation = case.task.loss_floor, case.history.validation
    if floor is None or not validation or validation[-1][1] >= floor - BELOW:
        return
    step, loss = validation[-1]
    yield Finding(
        "too_good", "broken", "the loss is better than any model's can be",
        f"validation loss {loss:.4g} at step {step}, floor {floor:.4g} (limit {BELOW:g} below it)",
        "the model sees what it is asked for: a leak from the future, or targets among the inputs",
        "look at the mask, the shift of the targets and norms over positions",
    )


def spikes(losses: list[float], window: int = 20) -> list[int]:
    """Steps whose loss lies far above those before it: over 6 robust deviations and 10 % of the median."""
    found = []
    for i in range(10, len(losses)):
        before = losses[max(0, i - window): i]
        middle = statistics.median(before)
        spread = 1.4826 * statistics.median(abs(x - middle) for x in before)
        if losses[i] > middle + max(6 * spread, 0.1 * abs(middle)):
            found.append(i + 1)
    return found


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


def overfitting(case: Case) -> Iterator[Finding]:
    """Validation loss that rises again while training loss falls."""
    history = case.history
    if len(history.validation) < 3:
        return
    best_step, best = min(history.validation, key=lambda pair: pair[1])
    last_step, last = history.validation[-1]
    limit = max(RISE, RISE_SHARE * best)
    gap = last - history.last
    if last - best <= limit or gap <= max(GAP, RISE_SHARE * last):
        return
    gaps = ", ".join(f"{loss - near:+.2f} at {step}" for step, loss, near in _gaps(case))
    yield Finding(
        "overfitting", "harmful", "validation gets worse while training gets better",
        f"validation loss {best:.3g} at step {best_step}, {last:.3g} at step {last_step} (limit +{limit:.2g}); "
        f"training loss {history.last:.3g}; validation minus training: {gaps}",
        "too little data for so many steps or so large a model: it learns the training examples by heart",
        f"stop early (train.patience=3), model.dropout=0.1 or more, train.steps={best_step}, more data, a smaller "
        "model",
    )


def _gaps(case: Case) -> Iterator[tuple[int, float, float]]:
    """(step, validation loss, training loss near it) at up to five places."""
    validation = list(case.history.validation)
    every = max(1, math.ceil(len(validation) / 5))
    for step, loss in validation[::-1][::every][::-1]:
        near = [value for at, value in case.history.losses if step - max(5, step // 10) < at <= step]
        if near:
            yield step, loss, statistics.median(near)


def uniform_attention(case: Case) -> Iterator[Finding]:
    """Heads that look everywhere alike, where nothing was learned either, and whether they could learn to choose."""
    heads = {seen.name: seen.entropy() for seen in case.trained_attention}
    if not heads or not case.at_chance:
        return  # a task such as majority is solved by looking everywhere: uniform alone is no fault
    if min(float(shares.min()) for shares in heads.values()) < UNIFORM:
        return
    ratio = query_gradient(case.start.parameters)
    cannot = ratio < NO_GRADIENT
    yield Finding(
        "uniform_attention", "harmful" if cannot else "hint",
        "every head looks everywhere alike, and nothing is learned",
        f"entropy over the log of visible keys: {'; '.join(_shares(name, shares) for name, shares in heads.items())} "
        f"(limit {UNIFORM}); loss {case.history.last:.3g}, chance {case.chance:.3g}; gradient of queries and keys at "
        f"the start: {ratio:.2g} of that of values (limit {NO_GRADIENT:g})",
        "scores are too small to tell keys apart, and no gradient makes them larger: a scaling factor too small, or "
        "queries and keys that start at zero" if cannot else
        "heads have not begun to choose; they could, so this follows from what else is wrong, or it is early",
        "model.scaling=sqrt_d_head, larger initial weights" if cannot else "see the other findings; more steps",
    )


def query_gradient(parameters: Mapping[str, float]) -> float:
    """Norm of the gradient of all query and key weights over that of value weights."""
    def norm(*names: str) -> float:
        return math.sqrt(sum(size**2 for name, size in parameters.items() if name.split(".")[-2] in names))

    return norm("query", "key") / max(norm("value"), 1e-30)


def _shares(name: str, shares: Tensor) -> str:
    return f"{name} {', '.join(f'{share:.3f}' for share in shares.tolist())}"


def stall(case: Case) -> Iterator[Finding]:
    """A loss that stays at chance, or ends far from the floor; and whether one batch can be learned by heart."""
    history = case.history
    if history.diverged is not None or not history.losses:
        return
    span = case.chance - case.floor
    way = (case.chance - history.last) / span if span > 0 else 1.0
    known = case.task.loss_floor is not None and history.complete and way < LEARNED
    if not (case.at_chance or known):
        return
    falling = history.falling > STILL * span
    cause, change = _stall_cause(case)
    learned = case.by_heart
    heart = "one batch: not trainable" if learned is None else (
        f"{learned.rows} rows alone, {learned.steps} steps: {learned.first:.3g} to {learned.last:.3g}")
    floor = "floor unknown" if case.task.loss_floor is None else f"floor {case.floor:.3g}"
    yield Finding(
        "stall", "harmful" if history.complete and not falling else "hint",
        "nothing is learned" if case.at_chance and not falling else
        f"learning {'ends' if falling else 'stops'} far from what is possible",
        f"loss {history.last:.3g} after {history.losses[-1][0]} steps; chance {case.chance:.3g}, {floor}: "
        f"{max(0.0, way):.0%} of the way (limit {LEARNED:.0%}), fallen by {history.falling:.2g} in the last third; "
        f"{heart}", cause, change,
    )


def _stall_cause(case: Case) -> tuple[str, str]:
    learned = case.by_heart
    if learned is not None and learned.last <= BY_HEART * case.chance:
        if case.config.train.lr < case.good_rate / 10:
            return _slow_rate(case)
        return (
            "the model can learn one batch by heart, so it works: too few steps or too little data for this task",
            f"train.steps={4 * case.config.train.steps}, a larger batch, an easier task first",
        )
    wider = case.wider_by_heart
    if wider is not None and wider.last < 0.5 * (learned.last if learned else math.inf):
        return (
            f"the model is too small: it cannot learn one batch by heart, one with d_model={case.wider} ends at "
            f"{wider.last:.3g}", f"model.d_model={case.wider}, more heads or layers",
        )
    return (
        "the model cannot even learn one batch by heart: a component that carries no gradient or no information",
        "look at the other findings, then at components of your own, one by one",
    )


def _slow_rate(case: Case) -> tuple[str, str]:
    return (
        f"the learning rate is too small: {case.config.train.lr:g}, where the range test still gains at "
        f"{3 * case.good_rate:.2g}", f"train.lr={case.good_rate:.1g}",
    )


def rate(case: Case) -> Iterator[Finding]:
    """The range test, for information."""
    tested, own = case.range, case.config.train.lr
    edge = "no rate up to 3 made it rise" if tested.edge is None else f"it rises from {tested.edge:.2g} on"
    least = f"{min(tested.losses, default=math.nan):.3g} at {3 * tested.best:.2g}" if tested.best else "as at the start"
    yield Finding(
        "rate", "note", "learning-rate range test",
        f"{len(tested.rates)} steps from 1e-05 up: least loss {least}; {edge}; configured {own:g}",
        "a rate a third of the best of a range test is a usual choice",
        f"try train.lr={tested.best:.1g} beside {own:g}; a sweep decides" if tested.best else "nothing follows from it",
    )
