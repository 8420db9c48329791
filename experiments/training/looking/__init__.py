"""What the layers of a model look like, measured without changing it: for the recorder of a run and for diagnosis.

    watch.py   sizes and gradients, gathered by layer       probes.py  hooks, attention scores and weights
    by_step.py one flat row for one step of training
"""
