"""Photonic rails: circuits that change during a job, their control plane, their cost in time, and failed parts."""

from railcore.photonics.circuit_search import technology_overheads
from railcore.photonics.circuits import PhotonicCircuits, photonic_overhead
from railcore.photonics.control_plane import catalog_control_plane, reconfiguration_sequence
from railcore.photonics.estimate import estimate_errors, estimates_of_runs
from railcore.photonics.simulation import ElectricalRails, simulate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.timetable import schedule
from railcore.photonics.workload import training_step
