import os
import sys

import pytest
import ulp
from hypothesis import settings

if "RAILCORE_ULP" in os.environ:  # before any test imports railcore
    ulp.install(os.environ["RAILCORE_ULP"])

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=25)
settings.register_profile("thorough", settings.get_profile("fixed"), max_examples=100)  # of `make slow`
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch, tmp_path):
    for name in ("RAILCORE_CATALOG", "RAILCORE_PARAMETERIZED", "RAILCORE_NOTEBOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAILCORE_OUT", str(tmp_path))
    monkeypatch.setattr("railcore.facts.files._notebook", None)


@pytest.fixture(autouse=True)
def sound_timelines(monkeypatch):
    """Every timeline that a test simulates, however deep in a function, is checked as it is made."""
    if simulation := sys.modules.get("railcore.engines.steps.simulation"):
        from timelines import check

        made = simulation.StepTimeline.__init__

        def make(timeline, *args, **fields):
            made(timeline, *args, **fields)
            check(timeline, jitter=1.0)  # of the computes, whatever it was

        monkeypatch.setattr(simulation.StepTimeline, "__init__", make)
