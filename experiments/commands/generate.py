"""`generate RUN --prompt ... --decode ...`: what a trained run writes."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from experiments import records
from experiments.commands.show import find_run, read_config
from experiments.config import ConfigError, RunConfig, digest
from experiments.tasks import Task
from transformer.generation import Decode

if TYPE_CHECKING:
    from torch import Tensor, nn

ENDLESS = 200  # new tokens where neither the request nor the model's length says when to stop
MOST_TOKENS = 10_000_000  # asked for at once; more is a slip, and would fill the memory


@dataclass(frozen=True)
class Trained:
    """A run with its weights: what it was told, the task that it learned, and the model, in eval mode."""

    config: RunConfig
    task: Task
    model: nn.Module


@dataclass(frozen=True)
class Written:
    """One text for one prompt.

    Attributes:
        prompt, text: as a person reads them; the text without the prompt.
        tokens: the new tokens, the end token included.
        score: log-probability of the text in nats; of a beam search divided by length^length_penalty.
        ended: whether the end token was written (otherwise the text was as long as allowed).
    """

    prompt: str
    text: str
    tokens: list[int]
    score: float
    ended: bool


@dataclass(frozen=True)
class Start:
    """What a decoder starts from: int64 and bool (B, P), padded on the left; sources (B, S) padded on the right."""

    tokens: Tensor
    keep: Tensor
    source: Tensor | None = None
    source_keep: Tensor | None = None


def command(run: str, prompt: list[str], decode: str, results: Path, as_json: bool, n: int = 1, seed: int = 0) -> int:
    """Prints n texts for each prompt, from the run with this id (or a unique beginning of it, or its directory)."""
    settings = Decode.parse(decode)
    wanted = {name: value for name, value, plain in (("n_best", n, 1), ("seed", seed, 0)) if value != plain}
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    settings = Decode(**{**given, **wanted})
    directory = find_run(results, run)
    with contextlib.redirect_stdout(sys.stderr):  # a user's own part may print, which is no part of our answer
        rows = generate(directory, prompt, settings)
    if as_json:
        answer = {"run": directory.name, "decode": str(settings), "texts": [asdict(row) for row in rows]}
        print(json.dumps(answer, indent=1))
    else:
        _print(directory.name, settings, rows)
    return 0


def generate(run_directory: Path, prompts: Sequence[str], decode: Decode, *, device: str = "cpu") -> list[Written]:
    """Texts of a trained run, n_best for each prompt.

    Settings that `decode` leaves open come from the task: its end and padding tokens, and as many new tokens as the
    length that the model was made for leaves room.

    Raises:
        ConfigError: the run cannot be loaded or writes no text, a prompt cannot be encoded, or the two do not fit.
    """
    return write(load(run_directory, device=device), prompts, decode)


def load(run_directory: Path, *, device: str = "cpu") -> Trained:
    """The model of a finished run.

    Raises:
        ConfigError: there is no such run, it has no weights yet, or they or its user's files are damaged or gone.
    """
    stored, config = read_config(run_directory)
    if not (run_directory / records.WEIGHTS).is_file():
        raise ConfigError([(str(run_directory), _no_weights(stored))])
    problems = config.problems()
    if problems:
        raise ConfigError([(f"{run_directory.name}: {path}", text) for path, text in problems])
    if digest(config.identity()) != (stored.config or {}).get("hash"):
        warnings.warn(
            f"{run_directory.name}: some part has changed its meaning since this run was trained, so its text may not "
            "be what it learned to write", RuntimeWarning, stacklevel=2,
        )
    return _with_weights(run_directory, config, device)


def write(trained: Trained, prompts: Sequence[str], decode: Decode) -> list[Written]:
    """Texts of a loaded run; see `generate`."""
    from experiments.seeds import torch_stream
    from transformer.generation.decode import generate as continue_all

    start = _encoded(trained, prompts)
    decode = _completed(decode, trained, start.tokens.shape[1])
    _check_sizes(decode, trained.task, len(prompts))
    try:
        found = continue_all(
            trained.model, start.tokens, decode, keep=start.keep, source=start.source, source_keep=start.source_keep,
            generator=torch_stream("generate", decode.seed),
        )
    except ValueError as error:
        raise ConfigError([("", str(error))]) from None
    return [
        Written(prompt, trained.task.decode(tokens), tokens, score, bool(tokens) and tokens[-1] == decode.eos_id)
        for prompt, texts, scores in zip(prompts, found.lists(), found.scores.tolist(), strict=True)
        for tokens, score in zip(texts, scores, strict=True)
    ]


def _no_weights(stored: records.Stored) -> str:
    config = stored.config or {}
    again = f"python run_all.py run {config.get('experiment')} --only {config.get('run_id')}"
    if stored.result is None:
        return f"has not finished, so it has no weights yet; {again}"
    return f"has finished, but its {records.WEIGHTS} is gone; train it again: {again} --redo"


def _with_weights(run_directory: Path, config: RunConfig, device: str) -> Trained:
    from experiments.check import build_task, model_arguments
    from experiments.training.checkpoint import load_weights
    from transformer.models import build

    task = build_task(config.task)
    if task.n_classes is not None:
        raise ConfigError([(run_directory.name, f"task '{config.task.name}' is a classification: its model names a "
                            "class and writes no text")])
    model = build(config.model, seed=config.seed, device=device, **model_arguments(task))
    load_weights(run_directory / records.WEIGHTS, model)
    return Trained(config, task, model.eval())


def _encoded(trained: Trained, prompts: Sequence[str]) -> Start:
    import torch

    from transformer.generation.decode import left_pad

    task, device = trained.task, next(trained.model.parameters()).device
    rows = _tokens(task, trained.config.task.name, prompts)
    if task.source_vocab_size is None:
        tokens, keep = left_pad(rows, task.pad_id)
        return Start(tokens.to(device), keep.to(device))
    assert task.bos_id is not None, f"task '{trained.config.task.name}' has sources but no token to start an answer"
    backwards, real = left_pad([row[::-1] for row in rows], task.pad_id)
    starts = torch.full((len(rows), 1), task.bos_id, device=device)
    return Start(starts, torch.ones_like(starts).bool(), backwards.flip(1).to(device), real.flip(1).to(device))


def _tokens(task: Task, name: str, prompts: Sequence[str]) -> list[list[int]]:
    if not prompts:
        raise ConfigError([("", "there is no prompt: give at least one with --prompt")])
    rows: list[list[int]] = []
    problems: list[tuple[str, str]] = []
    for prompt in prompts:
        try:
            rows.append(task.encode(prompt))
            if not rows[-1]:
                raise ValueError(f"is empty, and task '{name}' has no token that texts begin with")
        except ValueError as error:
            problems.append((f"prompt {prompt!r}", str(error)))
    if problems:
        raise ConfigError(problems)
    return rows


def _completed(decode: Decode, trained: Trained, prompt_length: int) -> Decode:
    """The settings with what they leave open filled in."""
    room = (trained.config.model.max_len or trained.task.max_len) - prompt_length + 1  # the last token is never read
    open_ = {"eos_id": trained.task.eos_id, "pad_id": trained.task.pad_id, "max_new_tokens": max(1, min(room, ENDLESS))}
    given = {name: getattr(decode, name) for name in decode.model_fields_set}
    return Decode(**{**open_, **given})


def _check_sizes(decode: Decode, task: Task, prompts: int) -> None:
    each = decode.beams or decode.n_best
    tokens, problems = prompts * each * decode.max_new_tokens, []
    if tokens > MOST_TOKENS:
        text = f"{prompts} x {each} x {decode.max_new_tokens} new tokens are more than {MOST_TOKENS:,}; ask for fewer"
        problems.append(("texts", text))
    problems += [
        (name, f"{token} is no token of this task, which has {task.vocab_size}, from 0")
        for name, token in (("eos_id", decode.eos_id), ("pad_id", decode.pad_id))
        if token is not None and token >= task.vocab_size
    ]
    if problems:
        raise ConfigError(problems)


def _print(run: str, decode: Decode, rows: Sequence[Written]) -> None:
    console = Console(highlight=False, markup=False)
    console.print(f"{run}, {decode}", markup=False, soft_wrap=True)
    for i, row in enumerate(rows):
        if i == 0 or rows[i - 1].prompt != row.prompt:
            console.print(f"\n{row.prompt}", markup=False, soft_wrap=True, style="bold")
        console.print(f"  {row.score:9.3f}  {row.text}", markup=False, soft_wrap=True)
