"""Costs of a layer of one strategy."""

import numpy as np

from railcore.training.layer import layer_costs, layer_passes
from railcore.training.rank import Rank


def columns_of(strategy):
    return {name: np.asarray(value) for name, value in strategy.columns(1).items()}


def layer_time(model, machine, runtime, strategy):
    """Arrays of no dimension."""
    return layer_costs(model, machine, runtime, columns_of(strategy))


def layer_work(model, machine, runtime, strategy):
    """Seconds by kind and pass."""
    return layer_passes(Rank.on(machine, model, runtime, columns_of(strategy)), machine).work
