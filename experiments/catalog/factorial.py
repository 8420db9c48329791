"""Five choices at once, every combination: which matter, and does the effect of one depend on another?"""

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment

SHORT = Spec("text", corpus="austen", context=32, eval_tokens=4096, test_tokens=8192)

experiment = Experiment(
    name="factorial",
    question="Which of position, feed-forward, norm, its placement and the score scale matter, alone and together?",
    baseline=RunConfig(
        model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope"), feedforward=Spec("relu")),
        task=Spec("text", corpus="austen", context=64, eval_tokens=8192, test_tokens=16384),
        train=TrainConfig(steps=300, batch_size=16, lr=3e-3, eval_every=100),
    ),
    grid={
        "model.positional": ["rope", Spec("sinusoidal", amplitude=0.02), "learned", "alibi"],
        "model.feedforward": ["relu", "gelu", "swiglu"],
        "model.norm": ["layernorm", "rmsnorm"],
        "model.placement": ["pre", "post"],
        "model.scaling": ["sqrt_d_head", "none"],
    },
    seeds=5,
    metric="test/loss",
    goal="min",
    smallest_effect=0.01,
    presets={
        "quick": {"seeds": 3, "baseline.train.steps": 200, "baseline.train.eval_every": 100, "baseline.task": SHORT},
        "standard": {"seeds": 5},
        "full": {"seeds": 10, "baseline.train.steps": 1000, "baseline.train.eval_every": 250},
    },
    tags=["factorial", "text", "components"],
)
