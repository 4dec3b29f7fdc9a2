"""Good calls of what is public in railcore.engines.own_runs."""

from railcore.engines.own_runs import own_runs

own_runs(None)
