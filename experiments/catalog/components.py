"""Every one-change variant around a Pre-LN decoder on real prose."""

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment

experiment = Experiment(
    name="components",
    question="Which parts of a small transformer matter on English prose, and by how much?",
    baseline=RunConfig(
        model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope")),
        task=Spec("text", corpus="austen", context=64),
        train=TrainConfig(steps=200, batch_size=16, lr=3e-3, eval_every=50),
    ),
    vary={
        # what is added to embeddings of std 0.02 has their size: an amplitude of 1 would lose for that alone
        "model.positional": [
            "none", Spec("sinusoidal", amplitude=0.028), Spec("learned", std=0.02), "relative", "alibi",
        ],
        "model.feedforward": ["relu", "silu", "swiglu", "geglu"],
        "model.norm": ["rmsnorm", "none"],
        "model.placement": ["post"],
        "model.scaling": ["none", "sqrt_d_model", "d_head"],
        "model.init": ["xavier"],
        "model.n_heads": [1],
    },
    when={"model.init=xavier": {"model.embedding_scale": ["sqrt_d_model"]}},  # the two halves of the paper's recipe
    seeds=5,
    metric="test/loss",
    goal="min",
    smallest_effect=0.01,
    presets={"quick": {"seeds": 3, "baseline.train.steps": 100}},
    tags=["text", "components"],
)
