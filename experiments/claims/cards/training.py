"""Claims about training: regularisation, clipping, smoothing, sampling its own words."""

from experiments.claims.card import EXACT, Claim, Part, difference, equivalence, guard, less, more, scaled, term
from experiments.claims.cards.bases import CODE, DELTA, LANGUAGE, LOSS, POINTS, RATES, quick, quick_prose
from experiments.config import ModelConfig, RunConfig, Spec, TrainConfig

SENSITIVITY = "lr_sensitivity:validation/loss"
FEW, MANY = 200, None

PHRASES = RunConfig(
    model=ModelConfig(architecture="encoder", d_model=64, n_layers=2, n_heads=4),
    task=Spec("language_id", train_rows=FEW),
    train=TrainConfig(steps=400, batch_size=32, lr=1e-3, eval_every=100),
)
SPELLING = RunConfig(
    model=ModelConfig(
        architecture="encoder_decoder", d_model=64, n_layers=2, n_heads=4, positional=Spec("sinusoidal"),
        embedding_scale="sqrt_d_model", init=Spec("xavier"), logit_scale="inverse_sqrt_d_model",
    ),
    task=Spec("spelling", eval_rows=256),
    train=TrainConfig(steps=800, batch_size=32, lr=3e-3, eval_every=400),
)


def _dropped(share: float, rows: int | None) -> dict[str, object]:
    return {"model.dropout": share, "task": Spec("language_id", train_rows=rows)}


def _stopping(steps: int) -> list[Part]:
    return [
        Part(name="loss", says="stopping after three validations without a better loss lowers the test loss",
             kind="quality", rule=difference(less("stopped", "to the end"), 0.02, "nats per answer")),
        Part(name="steps", says="it saves a tenth of the steps", kind="quality",
             rule=difference(less("stopped", "to the end", "cost/steps"), steps / 10, "steps")),
    ]  # fmt: skip


claims = (
    Claim(
        name="dropout-epochs",
        statement="Dropout prevents overfitting.",
        source="Srivastava et al. 2014; Vaswani et al. 2017, table 3 (D); Liu et al. 2025 for single-epoch training.",
        scope="an encoder that names the language of a phrase, trained on 200 phrases many times or on all of them",
        baseline=PHRASES, rates=[3e-4, 1e-3, 3e-3],
        arms={
            "few, none": {}, "few, 0.2": _dropped(0.2, FEW),
            "many, none": _dropped(0.0, MANY), "many, 0.2": _dropped(0.2, MANY),
        },
        parts=[
            Part(name="few", says="with few examples seen many times, dropout lowers the test loss", kind="quality",
                 rule=difference(less("few, 0.2", "few, none"), 0.02, "nats per answer")),
            Part(name="many", says="with all examples, dropout lowers the test loss, too", kind="quality",
                 rule=difference(less("many, 0.2", "many, none"), 0.02, "nats per answer")),
            Part(name="interaction", says="dropout helps more with few examples than with many", kind="quality",
                 rule=difference([*less("few, 0.2", "few, none"), *scaled(less("many, 0.2", "many, none"), -1)], 0.02,
                                 "nats per answer")),
        ],
        presets=quick(150),
    ),
    Claim(
        name="early-stopping",
        statement="Stopping when the validation loss no longer falls prevents overfitting, and saves steps.",
        source="Prechelt 1998, Early Stopping - But When?; Goodfellow et al. 2016, section 7.8.",
        scope="an encoder that names the language of a phrase, 200 phrases many times; scored where training ended",
        baseline=PHRASES.replace({"train.eval_every": 25}), rates=[3e-4, 1e-3, 3e-3],
        arms={"to the end": {}, "stopped": {"train.patience": 3}},
        parts=_stopping(400),
        presets=quick(150, **{
            "baseline.train.eval_every": 10, "parts": [part.to_dict() for part in _stopping(150)],
        }),
    ),
    Claim(
        name="amp-quality",
        statement="Mixed precision changes no result.",
        source="Micikevicius et al. 2018, arXiv:1710.03740; Kalamkar et al. 2019, arXiv:1905.12322 (bfloat16).",
        scope="bf16 by autocast on the forward pass, weights and optimiser in fp32",
        baseline=LANGUAGE, rates=RATES, looks=[10, 20],
        arms={"fp32": {}, "bf16": {"train.precision": "bf16"}},
        parts=[
            Part(name="loss", says="the losses agree within 0.01 nats", kind="quality",
                 rule=equivalence(less("bf16", "fp32"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="weight-decay",
        statement="Weight decay prevents overfitting.",
        source="Folklore; Andriushchenko et al. 2023 for the contrary in single-epoch language models.",
        scope="character language models that hardly see a passage twice",
        baseline=LANGUAGE, rates=RATES, second={"task": CODE},
        arms={"0.1": {}, "none": {"train.weight_decay": 0.0}},
        parts=[
            Part(name="loss", says="a decay of 0.1 lowers the test loss", kind="quality",
                 rule=difference(less("0.1", "none"), DELTA, LOSS)),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="label-smoothing",
        statement="Label smoothing keeps logits finite; it costs likelihood and gains accuracy.",
        source="Szegedy et al. 2016; Vaswani et al. 2017, section 5.4.",
        scope="scored with the plain loss, never the smoothed one",
        check="experiments.claims.exact.training:label_smoothing",
        baseline=LANGUAGE, rates=RATES, second={"task": CODE},
        arms={"none": {}, "0.1": {"train.label_smoothing": 0.1}},
        parts=[
            Part(name="finite", says="the smoothed loss is least at finite logits, the plain one nowhere", kind="exact",
                 rule=EXACT),
            Part(name="costs-likelihood", says="at the smoothed optimum a sure target is not given probability 1",
                 kind="exact", rule=EXACT),
            Part(name="likelihood", says="smoothing by 0.1 raises the test loss", kind="quality",
                 rule=difference(less("none", "0.1"), DELTA, LOSS)),
            Part(name="accuracy", says="smoothing by 0.1 raises the accuracy by a point", kind="quality",
                 rule=difference(more("0.1", "none"), 0.01, "accuracy")),
        ],
        presets=quick_prose(),
    ),
    Claim(
        name="clipping",
        statement="Clipping gradients keeps their direction, and keeps training from blowing up.",
        source="Pascanu et al. 2013; Zhang et al. 2020, arXiv:1905.11881.",
        scope="AdamW with and without a limit of 1 on the norm, learning rates up to 0.1",
        check="experiments.claims.exact.training:clipping",
        baseline=LANGUAGE, rates=[3e-3, 1e-2, 3e-2, 1e-1],
        arms={"clip 1": {}, "none": {"train.clip": None}},
        parts=[
            Part(name="direction", says="the direction stays, and no more than the length changes", kind="exact",
                 rule=EXACT),
            Part(name="adam", says="Adam's first update is the same with and without", kind="exact", rule=EXACT),
            Part(name="sensitivity", says="clipping lowers the sensitivity to the learning rate", kind="stability",
                 rule=difference(less("clip 1", "none", SENSITIVITY), 0.02, LOSS, guard(
                     [term("clip 1", "clipped_share", 1.0)], "hardly a step was clipped", at_least=0.01))),
            Part(name="loss", says="clipping lowers the loss at the best learning rate", kind="quality", primary=False,
                 rule=difference(less("clip 1", "none"), DELTA, LOSS)),
            Part(name="spikes", says="clipping lowers the number of loss spikes by one a run", kind="stability",
                 primary=False, rule=difference(less("clip 1", "none", "spikes"), 1.0, "spikes a run")),
        ],
        presets=quick_prose(rates=[3e-3, 3e-2]),
    ),
    Claim(
        name="scheduled-sampling",
        statement="Training on its own words (scheduled sampling) makes a model better at writing.",
        source="Bengio et al. 2015, arXiv:1506.03099; Mihaylova and Martins 2019 for transformers.",
        scope="spelling to phonemes, scored on what the model writes freely",
        baseline=SPELLING, rates=RATES, metric="test/phoneme_error_rate",
        arms={"teacher forcing": {}, "scheduled sampling": {"train.scheduled_sampling": Spec("linear", end=0.5)}},
        parts=[
            Part(name="errors", says="it makes fewer errors: at least two points less of phonemes", kind="quality",
                 rule=difference(less("scheduled sampling", "teacher forcing", "test/phoneme_error_rate"), POINTS,
                                 "phoneme error rate")),
        ],
        presets=quick(100, **{"baseline.task": Spec("spelling", eval_rows=64)}),
    ),
)  # fmt: skip
