"""Pipeline schedules of one training iteration: tables of timed events from dependencies, and their closed forms.

Symbols: p stages, m micro-batches, v chunks of layers of a stage, t_f and t_b the forward and backward time of a
micro-batch in a stage (a chunk takes 1/v of it), c the time of one transfer between stages. Chunk k of stage i is
virtual stage k p + i. A micro-batch passes positions q = 0 ... 2 p v - 1: virtual stage q forward, 2 p v - 1 - q
backward. Stages, chunks and micro-batches count from 0. A compute starts as soon as its input is there and the stage
is free; each stage computes in a fixed order:

- gpipe: all forward passes, then all backward passes;
- 1f1b: min(m, p - 1 - i) forward passes, then one forward and one backward in turn, then the rest backward;
- interleaved: the same over chunks, p micro-batches of a chunk at a time, after 2 (p - 1 - i) + (v - 1) p forward
  passes, as Megatron-LM has it.

What a transfer does to the stages is one of TRANSFERS:

- overlapped: nothing; a stage sends one message at a time;
- duplex: sender and receiver wait for it, but a stage sends and receives at the same time;
- blocking: a stage either computes, sends or receives.

Where they wait, a stage sends right after the compute and receives right before it; what arrives earlier is buffered.

Sources: railonly2025, Fig. 6 and section "Iteration time modeling"; Huang et al. 2019 (gpipe); Narayanan et al. 2021,
section 2.2 (1f1b, interleaved).
"""

from railcore.training.pipeline_schedule.closed_forms import (
    SCHEDULE_KINDS,
    TRANSFERS,
    critical_sends,
    peak_microbatches,
    pipeline_bubble_time,
    pipeline_time,
)
from railcore.training.pipeline_schedule.timetable import Timetable, schedule

__all__ = [
    "SCHEDULE_KINDS",
    "TRANSFERS",
    "Timetable",
    "critical_sends",
    "peak_microbatches",
    "pipeline_bubble_time",
    "pipeline_time",
    "schedule",
]
