"""Iteration time of many strategies at once, as arrays: equal to the readable model `training.iteration`."""
