"""Runs of one shape that train as one: seeds and learning rates of a variant, stacked.

What a replica keeps to itself: its weights, data order, schedule, weight decay, betas, clipping, dropout stream, early
stop and divergence. What replicas share: the architecture, the task, the batch size and everything else that shapes a
tensor. A run's identity does not know of it; result.json says in `environment.replicas` how many trained together.

Without dropout a replica equals its separate training but for the order of float additions (1e-5 relative after 50
steps). With dropout it drops other units than a separate run does, from a stream of its own that depends on
(seed, step) alone: who else is in the group changes nothing.
"""
