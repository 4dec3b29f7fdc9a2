"""Iteration time: the two-stage model of railonly2023, and the critical path of a 1F1B pipeline."""
