"""Drawn cases of the facade, the command line and specs: each is refused with a remedy or answered with sense."""

import json
import os
import random
import resource
import signal

import pytest
from drawn_cases import drawn, verdict, warm
from test_surface import limit_memory

QUICK, MANY = 100, 3000
CASE_S = 6


def failures(seed, numbers):
    """Number, text and fault of each case that fails, in processes of their own with limits of time and memory."""
    warm()
    found, numbers = [], list(numbers)
    while numbers:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            with os.fdopen(writing, "w", buffering=1, encoding="utf-8") as told:
                try:
                    limit_memory()
                    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 20,) * 2)
                    for number in numbers:
                        case = drawn(seed, number)
                        told.write(json.dumps([number, case.text]) + "\n")
                        _limit_time(CASE_S)
                        fault = verdict(case)
                        _limit_time(0)
                        told.write(json.dumps([number, fault]) + "\n")
                finally:
                    os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            lines = [json.loads(line) for line in pipe.read().splitlines()]
        _, status = os.waitpid(child, 0)
        texts, faults = lines[::2], lines[1::2]
        faults += [(number, _end(status)) for number, _ in texts[len(faults) :]]
        found += [(number, text, fault) for (number, text), (_, fault) in zip(texts, faults, strict=True) if fault]
        numbers = numbers[len(texts) :]
    return found


def _end(status):
    if not os.WIFSIGNALED(status):
        return "the process ended"
    return f"{signal.Signals(os.WTERMSIG(status)).name}, after {CASE_S} s if that is SIGPROF"


def _limit_time(seconds):
    """Of the processor, whatever else runs; and of waiting for something ten times that."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def test_a_hundred_drawn_cases_are_refused_with_a_remedy_or_answered_with_sense():
    cases = [(number, drawn(1, number, quick=True)) for number in range(QUICK)]
    assert not [(number, case.text, fault) for number, case in cases if (fault := verdict(case))]


@pytest.mark.slow
def test_thousands_of_drawn_cases_are_refused_with_a_remedy_or_answered_with_sense():
    """Minutes. RAILCORE_FUZZ=SEED draws the same cases again; the seed is in the message."""
    seed = int(os.environ.get("RAILCORE_FUZZ") or random.SystemRandom().randrange(10**6))
    found = failures(seed, range(MANY))
    assert not found, "\n".join([f"RAILCORE_FUZZ={seed}", *(" ".join(map(str, each)) for each in found)])
