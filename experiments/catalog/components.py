"""Every one-change variant around a Pre-LN decoder on real prose."""

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment

experiment = Experiment(
    name="components",
    question="Which parts of a small transformer matter on English prose, and by how much?",
    baseline=RunConfig(
        model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope")),
        task=Spec("text", corpus="austen", context=64),
        train=TrainConfig(steps=150, batch_size=16, lr=3e-3, eval_every=50),
    ),
    vary={
        # the sinusoid is scaled to the embeddings it is added to: amplitude 1 on std 0.02 would lose for that alone
        "model.positional": ["none", Spec("sinusoidal", amplitude=0.02), "learned", "rope", "alibi"],
        "model.feedforward": ["relu", "gelu", "swiglu"],
        "model.norm": ["layernorm", "rmsnorm", "none"],
        "model.placement": ["pre", "post"],
        "model.scaling": ["sqrt_d_head", "none"],
        "model.n_heads": [1, 4],
    },
    seeds=5,
    metric="test/loss",
    goal="min",
    smallest_effect=0.01,
    presets={"smoke": {"seeds": 2, "baseline.train.steps": 20}},
    tags=["text", "components"],
)
