"""How much memory a run needs, measured so that runs which share a process can be compared.

A process's resident size only ever grows, and a warm worker has held other models before. So on CPU the peak is
counted: weights, their gradients, the optimiser's state, and every tensor that the forward pass of one micro-batch
really kept for its backward pass (as autograd reports them, each storage once). Temporary buffers of single operations
and the process itself are not in it. On CUDA it is what the allocator held at its peak.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

COUNTED = "counted: weights, gradients, optimiser state, tensors saved for the backward pass"
ALLOCATED = "allocated: peak of the CUDA allocator"


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """While it is entered, adds up what autograd saves, the model's own parameters left out; see `nbytes`."""

    def __init__(self, model: nn.Module) -> None:
        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.storages: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                self.storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        super().__init__(pack, lambda tensor: tensor)

    def nbytes(self) -> int:
        """Bytes of all storages seen; each stays alive until the backward pass, so none is counted twice."""
        return sum(self.storages.values())


def peak_memory(
    model: nn.Module, optimiser: torch.optim.Optimizer, saved_bytes: int, device: str, replicas: int = 1
) -> tuple[int, str]:
    """(bytes, how they were measured); of `replicas` that trained together on a GPU, an equal share."""
    if device.startswith("cuda"):
        share = f", one share of {replicas}" if replicas > 1 else ""
        return torch.cuda.max_memory_allocated(device) // replicas, ALLOCATED + share
    weights = sum(p.nbytes for p in model.parameters())
    gradients = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    state = sum(t.nbytes for entry in optimiser.state.values() for t in entry.values() if isinstance(t, Tensor))
    return weights + gradients + state + saved_bytes, COUNTED


def start_counting(device: str) -> None:
    """Forgets the peak of earlier runs."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
