"""Photonic rails: circuits that change during a job, their control plane, their cost in time, and failed parts."""
