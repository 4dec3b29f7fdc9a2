"""Iteration time: the two-stage model of railonly2023, and the critical path of a 1F1B pipeline."""

from railcore.training.iteration.critical_path import REASONS, STRATEGY, Estimate, iteration_times
from railcore.training.iteration.layer import MODERN, RUNTIMES, Runtime
from railcore.training.iteration.machine import Machine

__all__ = ["MODERN", "REASONS", "RUNTIMES", "STRATEGY", "Estimate", "Machine", "Runtime", "iteration_times"]
