"""Timetables of pipelines; a training step as a graph of computes and collectives, and its event-driven run."""
