"""Training one run: schedules, optimiser, loss, evaluation, checkpoints, trackers and the loop that joins them."""
