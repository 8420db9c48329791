"""Position encodings asked for sequences longer than any they were trained on."""

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment

experiment = Experiment(
    name="length",
    question="Which position encoding keeps its accuracy beyond the trained length?",
    baseline=RunConfig(
        model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope"), embedding_scale="sqrt_d_model"),
        task=Spec("copy"),
        train=TrainConfig(steps=300, batch_size=32, lr=3e-3, eval_every=100),
    ),
    vary={"model.positional": ["none", "sinusoidal", "learned", "rope", "alibi"]},
    seeds=5,
    metric="test/len_20/accuracy",
    goal="max",
    smallest_effect=0.02,
    presets={"smoke": {"seeds": 2, "baseline.train.steps": 20}},
    tags=["length", "positional"],
)
