"""Bad input to everything that is public: it is refused, or answered with sense. tests/surface has the good calls."""

import random

import pytest
from surface_cases import FOLDER, calls, cases, meant, surface, verdict, why_meant
from surface_commands import commands, lines

DRAWN = 1000  # cases of `make test`; `make slow` takes all
FILES = sorted(path.stem for path in FOLDER.iterdir() if path.suffix in (".py", ".toml"))


def wrong(some):
    """What is wrong with cases, but for those that are meant."""
    found = {case: verdict(case) for case in some if why_meant(case) is None}
    return [f"{case}: {told}" for case, told in found.items() if told]


def of_file(stem, some):
    names = set(calls_of(stem))
    return [case for case in some if case.name in names]


def calls_of(stem):
    return [name for name, call in calls().items() if call.file == stem]


def test_every_public_callable_has_a_good_call():
    lacking = {name: module for name, module in surface().items() if name not in calls()}
    assert not lacking, f"write a good call of each in tests/surface: {lacking}"


def test_every_option_of_every_command_has_a_good_line():
    given = {(line.command, parameter) for line in lines().values() for parameter in line.parameters}
    assert given == {(command, parameter) for command, actions in commands().items() for parameter in actions}


@pytest.mark.parametrize("stem", FILES)
def test_bad_input_is_refused_or_answered_with_sense(stem):
    drawn = random.Random(40).sample(cases(), DRAWN)
    assert not wrong(of_file(stem, drawn))


@pytest.mark.slow
@pytest.mark.parametrize("stem", FILES)
def test_all_bad_input_is_refused_or_answered_with_sense(stem):
    assert not wrong(of_file(stem, cases()))


@pytest.mark.slow
def test_every_exception_is_needed():
    """A row of meant.csv none of whose cases is answered as a good call is goes."""
    needed = {why_meant(case) for case in cases() if why_meant(case) is not None and verdict(case)}
    assert needed == set(range(len(meant())))
