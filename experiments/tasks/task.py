"""The contract of a task: where batches come from and what is measured.

B batch, L positions, S source positions. Streams are addressed, not consumed: batch `step` of seed `seed` is a pure
function of the two, so a resumed run needs no data position, and no choice of model can change a training token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from torch import Tensor

from transformer.registry import Registry

IGNORE = -100  # a target that counts in no loss and no metric


@dataclass(frozen=True)
class Batch:
    """One batch; every tensor on CPU.

    Attributes:
        inputs: int64 (B, L): what the decoder (or the encoder of a classifier) reads.
        targets: int64 (B, L), IGNORE where nothing is asked; for a classifier int64 (B,).
        keep: bool (B, L), True = a real token of `inputs`; None = all are.
        source, source_keep: int64 and bool (B, S), for encoder-decoder tasks only.
    """

    inputs: Tensor
    targets: Tensor
    keep: Tensor | None = None
    source: Tensor | None = None
    source_keep: Tensor | None = None

    def __len__(self) -> int:
        return int(self.inputs.shape[0])


@dataclass(frozen=True)
class Evaluation:
    """A fixed evaluation set.

    Attributes:
        name: "" for the set that experiments select on; otherwise a suffix such as `len_32`.
        batches: the same for every variant.
        length: sequence length that it asks for, in tokens; the x-axis of score-against-length figures.
    """

    name: str
    batches: Sequence[Batch]
    length: int | None = None


class Task:
    """What a model learns. Options are the keyword-only parameters of `__init__`.

    Attributes:
        architectures: model architectures that can learn it.
        vocab_size: tokens of `inputs` (and `targets`, unless n_classes is set).
        source_vocab_size: tokens of `source`; None = no source.
        max_len: positions that a model needs, the longest evaluation included.
        n_classes: classes of a classification task; None = next-token prediction.
        pad_id: what fills the end of short rows.
        loss_floor: the least loss that any model can reach, nats per token; None = unknown.
        sequence_metrics: whether exact match (every asked token of a row right) means something.
        data_files: sha256 of each data file by name; part of the record of a run, and of its identity.
        file_options: options that name files; their content counts in a run's identity, the path does not.
        bos_id, eos_id: what a decoder starts from and stops at; None = it continues a prompt without end.
        class_names: what each class of a classification task stands for.
        text_metrics: names of the metrics that `score_text` gives; empty = there are none.
        yardsticks: names of the scores that `yardstick_scores` gives.
    """

    architectures: ClassVar[tuple[Literal["decoder", "encoder", "encoder_decoder"], ...]] = ("decoder",)
    vocab_size: int
    source_vocab_size: int | None = None
    max_len: int
    n_classes: int | None = None
    pad_id: int = 0
    loss_floor: float | None = None
    sequence_metrics: bool = False
    data_files: Mapping[str, str] = MappingProxyType({})
    file_options: ClassVar[tuple[str, ...]] = ()
    bos_id: int | None = None
    eos_id: int | None = None
    class_names: Sequence[str] = ()
    text_metrics: ClassVar[tuple[str, ...]] = ()
    yardsticks: ClassVar[tuple[str, ...]] = ()

    def train_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Batch number `step` (from 0) of the training stream of `seed`."""
        raise NotImplementedError(type(self).__name__)

    def evaluations(self, split: Literal["validation", "test"], seed: int) -> list[Evaluation]:
        """The evaluation sets of a split for seed block `seed`; the first is named ""."""
        raise NotImplementedError(type(self).__name__)

    def encode(self, text: str) -> list[int]:
        """Tokens of a prompt, complete with what stands before the answer; with a source: tokens of the source.

        Raises:
            ValueError: naming what cannot be encoded.
        """
        raise NotImplementedError(type(self).__name__)

    def decode(self, tokens: Sequence[int]) -> str:
        """Readable text of tokens of `inputs` or answers; padding, start and end are left out."""
        raise NotImplementedError(type(self).__name__)

    def decode_source(self, tokens: Sequence[int]) -> str:
        """Readable text of tokens of `source`."""
        return self.decode(tokens)

    def references(self, batch: Batch) -> list[str]:
        """The right answer of each row as text: the asked tokens decoded, or the name of the class."""
        if self.n_classes is not None:
            names = self.class_names or [str(index) for index in range(self.n_classes)]
            return [names[index] for index in batch.targets.tolist()]
        return [self.decode([t for t in row if t != IGNORE]) for row in batch.targets.tolist()]

    def score_text(self, references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, float]:
        """Metrics of generated text against references, named as in `text_metrics`."""
        return {}

    def yardstick_scores(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Text metrics of what needs no model, named WHAT_METRIC, as in `yardsticks`: `copy_chrf` for a copy's chrF."""
        return {}

    def overlap(self, seed: int) -> int | None:
        """Evaluation examples of seed block `seed` that training may see, or that validation and test share.

        None = cannot be told. By default, evaluation rows are looked for among the first training batches.
        """
        from experiments.tasks.overlap import shared_rows

        return shared_rows(self, seed)


def _load() -> None:
    from experiments.tasks import shipped

    shipped.load()


TASKS: Registry[Task] = Registry("task", _load, Task)
