"""Position encodings asked for sequences longer than any they were trained on."""

from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig
from experiments.experiment import Experiment

experiment = Experiment(
    name="length",
    question="Which position encoding keeps its accuracy beyond the trained length?",
    baseline=RunConfig(
        # weights of std 1/sqrt(d_model): at 0.02 so small a model learns to copy too late for a short budget
        model=ModelConfig(d_model=64, n_layers=2, n_heads=4, positional=Spec("rope"), init=Spec("gpt", std=0.125)),
        task=Spec("copy", max_length=10, eval_lengths=[10, 15, 20]),
        train=TrainConfig(steps=400, batch_size=32, lr=3e-3, eval_every=100),
    ),
    # what is added to embeddings of std 0.125 has their size; a sinusoid of amplitude a has std 0.7 a
    vary={
        "model.positional": [
            "none", Spec("sinusoidal", amplitude=0.177), Spec("learned", std=0.125), "relative", "alibi",
        ]
    },
    seeds=5,
    metric="test/len_20/accuracy",
    goal="max",
    smallest_effect=0.02,
    presets={"quick": {"seeds": 3, "baseline.train.steps": 200}},
    tags=["length", "positional"],
)
