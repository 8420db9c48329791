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
        data_files: sha256 of each data file by name, part of the record of a run.
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

    def train_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Batch number `step` (from 0) of the training stream of `seed`."""
        raise NotImplementedError(type(self).__name__)

    def evaluations(self, split: Literal["validation", "test"], seed: int) -> list[Evaluation]:
        """The evaluation sets of a split for seed block `seed`; the first is named ""."""
        raise NotImplementedError(type(self).__name__)

    def encode(self, text: str) -> list[int]:
        """Tokens of a prompt. Raises ValueError naming what cannot be encoded."""
        raise NotImplementedError(type(self).__name__)

    def decode(self, tokens: Sequence[int]) -> str:
        """Readable text of tokens."""
        raise NotImplementedError(type(self).__name__)


def _load() -> None:
    from experiments.tasks import shipped

    shipped.load()


TASKS: Registry[Task] = Registry("task", _load)
