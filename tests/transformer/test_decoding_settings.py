"""What a decoding may be told, and what it says to a mistake."""

from __future__ import annotations

import subprocess
import sys

import pytest

from transformer.config import ConfigError
from transformer.generation import Decode


@pytest.mark.parametrize(
    "text, settings",
    [
        ("greedy", Decode()),
        ("greedy,max_new_tokens=5,repetition_penalty=1.2", Decode(max_new_tokens=5, repetition_penalty=1.2)),
        ("sample", Decode(temperature=1.0)),
        ("sample,temperature=0.8,top_p=0.9", Decode(temperature=0.8, top_p=0.9)),
        ("sample,temperature=0", Decode()),
        (" sample , top_k = 5, n_best=3", Decode(temperature=1.0, top_k=5, n_best=3)),
        ("beam", Decode(beams=4)),
        ("beam,beams=2,length_penalty=0.6", Decode(beams=2, length_penalty=0.6)),
        ("beam,early_stopping=never,n_best=2", Decode(beams=4, early_stopping="never", n_best=2)),
        ("beam,early_stopping=true,eos_id=0", Decode(beams=4, early_stopping=True, eos_id=0)),
    ],
)
def test_text_becomes_settings_and_settings_become_text(text: str, settings: Decode) -> None:
    assert Decode.parse(text) == settings
    assert Decode.parse(str(settings)) == settings


def test_settings_print_as_their_command_line_text() -> None:
    assert str(Decode()) == "greedy"
    assert str(Decode(temperature=0.8, top_p=0.9, seed=3)) == "sample,temperature=0.8,top_p=0.9,seed=3"
    assert str(Decode(beams=4, early_stopping="never")) == "beam,beams=4,early_stopping=never"


SAMPLE = "temperature, top_k, top_p, n_best, max_new_tokens, repetition_penalty, no_repeat_ngram, eos_id, pad_id, seed"
GREEDY = "max_new_tokens, repetition_penalty, no_repeat_ngram, eos_id, pad_id, seed"


@pytest.mark.parametrize(
    "text, message",
    [
        ("gredy", "unknown decoding 'gredy'. Did you mean 'greedy'? Known: beam, greedy, sample"),
        ("", "unknown decoding ''. Known: beam, greedy, sample"),
        ("sample,top_q=3", f"unknown option 'top_q' of decoding 'sample'. Did you mean 'top_p'? Known: {SAMPLE}"),
        ("greedy,top_p=0.9", f"decoding 'greedy' has no option 'top_p', only sample has; it has: {GREEDY}"),
        ("greedy,n_best=2", f"decoding 'greedy' has no option 'n_best', only sample and beam have; it has: {GREEDY}"),
        ("sample,0.8", "'0.8' in a decoding must be written option=value, such as sample,temperature=0.8"),
        ("beam,beams=2,beams=3", "option 'beams' of decoding 'beam' is given twice"),
        ("beam,beams=two", "beams: 'two' must be a whole number or null"),
        ("sample,top_p=1.5", "top_p: 1.5 must be less than or equal to 1"),
        ("sample,temperature=-1", "temperature: -1 must be greater than or equal to 0"),
        ("beam,early_stopping=maybe", "early_stopping: 'maybe' must be True, False or 'never'"),
        ("beam,n_best=9", "n_best: 9 texts cannot come from beams=4; raise beams"),
        ("sample,temperature=0,top_p=0.9", "top_p: 0.9 changes nothing in greedy decoding; set temperature above 0 to sample"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Decode.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"top_p": 0.9}, "top_p: 0.9 changes nothing in greedy decoding; set temperature above 0 to sample"),
        ({"length_penalty": 0.5}, "length_penalty: 0.5 changes nothing in greedy decoding; set beams for beam search"),
        ({"beams": 3, "temperature": 0.5},
         "temperature: 0.5 changes nothing in beam decoding; leave it out, or leave beams out"),
        ({"temperature": 1.0, "early_stopping": True},
         "early_stopping: True changes nothing in sample decoding; set temperature to 0 and beams for beam search"),
    ],
)
def test_a_setting_without_effect_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Decode(**settings)
    assert str(caught.value) == message


def test_every_mistake_in_a_text_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Decode.parse("sample,top_q=3,beams=2")
    assert len(caught.value.problems) == 2


def test_settings_are_read_without_torch() -> None:
    code = "import sys, transformer.generation as g; g.Decode.parse('beam'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
