"""What the identity of a component holds, and that names are loaded once and whole."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from transformer.registry import Registry
from transformer.spec import Spec


def registry() -> Registry:
    made = Registry("thing")

    @made.register("box", added=("lid",))
    class Box:
        def __init__(self, *, width: int = 3, lid: bool = False) -> None:
            self.width, self.lid = width, lid

    return made


def test_an_option_that_was_added_later_leaves_earlier_identities_as_they_were():
    things = registry()
    before = {"name": "box", "version": 1, "options": {"width": 3}}
    assert things.identity(Spec("box")) == things.identity(Spec("box", lid=False, width=3)) == before
    assert things.identity(Spec("box", lid=True))["options"] == {"width": 3, "lid": True}
    assert things.resolve(Spec("box")) == {"width": 3, "lid": False}
    assert things.build(Spec("box", lid=True)).lid is True


def test_what_was_added_must_be_an_option():
    with pytest.raises(ValueError, match="thing 'bag': added names 'strap', which is no option"):

        @Registry("thing").register("bag", added=("strap",))
        class Bag:
            def __init__(self, *, size: int = 1) -> None:
                self.size = size


def test_threads_that_ask_at_once_all_see_every_name():
    def load():
        for name in ("a", "b"):
            time.sleep(0.05)
            parts.register(name)(type(name, (), {}))
            assert parts.names()[0] == "a"  # what is being loaded may ask as well

    parts = Registry("part", load=load)
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: parts.names(), range(4)))
    assert seen == [["a", "b"]] * 4


def test_a_load_that_was_interrupted_is_done_again():
    tries = []

    def load():
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        parts.register("a")(type("A", (), {}))

    parts = Registry("part", load=load)
    with pytest.raises(KeyboardInterrupt):
        parts.names()
    assert parts.names() == ["a"]
