"""Pipeline schedules of one training iteration in closed form: bubbles, transfers that count, micro-batches in flight.

Symbols: p stages, m micro-batches, v chunks of layers of a stage, t_f and t_b the forward and backward time of a
micro-batch in a stage (a chunk takes 1/v of it), c the time of one transfer between stages. A compute starts as soon
as its input is there and the stage is free; each stage computes in a fixed order:

- gpipe: all forward passes, then all backward passes;
- 1f1b: min(m, p - 1 - i) forward passes, then one forward and one backward in turn, then the rest backward;
- interleaved: the same over chunks, p micro-batches of a chunk at a time, after 2 (p - 1 - i) + (v - 1) p forward
  passes, as Megatron-LM has it.

What a transfer does to the stages is one of TRANSFERS:

- overlapped: nothing; a stage sends one message at a time;
- duplex: sender and receiver wait for it, but a stage sends and receives at the same time;
- blocking: a stage either computes, sends or receives.

`photonics.timetable` times every event of a schedule, also of stages that differ; tests hold both to each other.

Sources: railonly2025, Fig. 6 and section "Iteration time modeling"; Huang et al. 2019 (gpipe); Narayanan et al. 2021,
section 2.2 (1f1b, interleaved).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.checks import Floats, Ints, one_of, whole
from railcore.compiled import Arithmetic, smaller

SCHEDULE_KINDS = ("gpipe", "1f1b", "interleaved")
TRANSFERS = ("overlapped", "duplex", "blocking")
LAYERS_IN_MEMORY = 2  # whose activations stay on the GPU where they are offloaded: the one at work and the next


def critical_sends(
    stages: ArrayLike, microbatches: ArrayLike, chunks: ArrayLike = 1, kind: str = "1f1b", transfers: str = "overlapped"
) -> Ints:
    """Number of transfers that lengthen the iteration, for stages of equal time. For p = 1 it is 0, else

    - overlapped: gpipe 2 (p - 1), 1f1b 2 (p - 1) + 2 floor((m - 1) (p - 1) / p), interleaved 2 (p v - 1);
    - duplex: gpipe 2 (p + m - 2), 1f1b 2 (p + m - 2) less 1 for m > 1; with p = 2 m + 1;
    - blocking: gpipe 2 (p - 1) + 4 (m - 1), 1f1b 2 (p + m - 2) + 2 max(0, m - 3); with p = 2 both 2 m.

    Exact for overlapped up to c = min(t_f, t_b) / v, for duplex always, for blocking up to half of min(t_f, t_b) in
    1f1b and always in gpipe; beyond that a lower bound. The forms were found from timetables.

    Parameters
    ----------
    stages, microbatches, chunks
        p, m and v.
    kind
        "gpipe", or "1f1b", which is interleaved where v > 1.
    transfers
        One of TRANSFERS.

    Returns
    -------
    Whole numbers, of the arguments' shape.

    Raises
    ------
    ValueError
        For interleaved with duplex or blocking, which have no short form: take `photonics.timetable.schedule`.
    """
    p, m, v = checked_sizes(kind, stages, microbatches, chunks, transfers)
    if transfers != "overlapped" and np.any(v > 1):
        raise ValueError(f"transfers is {transfers!r} with chunks {chunks!r}: give 'overlapped', or take `schedule`")
    first, later = 2 * (p - 1), m - 1
    if transfers == "overlapped":
        more = 0 * m if kind == "gpipe" else np.where(v > 1, 2 * p * (v - 1), 2 * (later * (p - 1) // p))
    elif transfers == "duplex":
        more = 2 * later if kind == "gpipe" else np.where(p == 2, later, 2 * later - (m > 1))
    else:
        middle = 2 * later if kind == "gpipe" else 2 * np.maximum(0, m - 3)
        more = 2 * later + np.where(p > 2, middle, 0)
    return np.where(p > 1, first + more, 0)


def pipeline_bubble_time(
    stages: ArrayLike,
    microbatches: ArrayLike,
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    chunks: ArrayLike = 1,
    send_s: ArrayLike = 0.0,
    kind: str = "1f1b",
    transfers: str = "overlapped",
) -> Floats:
    """Time of an iteration in which a stage does not compute, in closed form: (p - 1) (t_f + t_b) / v + n c.

    Parameters
    ----------
    stages, microbatches, chunks, kind, transfers
        As for `critical_sends`, which gives n; it says where that is exact.
    forward_s, backward_s
        t_f and t_b of a micro-batch in a whole stage, all stages alike [s].
    send_s
        One transfer, c [s].

    Returns
    -------
    Seconds, of the arguments' shape.

    References
    ----------
    railonly2025, "Pipeline Bubble Time"; Narayanan et al. 2021, section 2.2.
    """
    n = critical_sends(stages, microbatches, chunks, kind, transfers)
    times = np.asarray(forward_s, float) + np.asarray(backward_s, float)
    return (np.asarray(stages) - 1) * times / np.asarray(chunks) + n * np.asarray(send_s, float)


@Arithmetic
def microbatches_in_flight(p: Any, m: Any, v: Any, i: Any) -> Any:
    """Micro-batches whose activations a stage holds at once in 1f1b or interleaved, a chunk counting 1/v.

    min(m, (w + 1 + r (v - 1)) / v). w is the number of forward passes before the first backward one: p - 1 - i, with
    chunks 2 (p - 1 - i) + (v - 1) p. r = m mod p micro-batches that fill no group of p join the one before.
    Plain arithmetic: of numbers, or of arrays.

    Parameters
    ----------
    p, m, v
        Stages, micro-batches, chunks of a stage.
    i
        The stage, from 0.

    Returns
    -------
    Micro-batches.
    """
    rest = (m - p * np.floor(m / p)) * (v - 1)
    return smaller((p - i + (v > 1) * (p - 1 - i) + (v - 1) * p + rest) / v, m)


def checked_sizes(
    kind: str, stages: ArrayLike, microbatches: ArrayLike, chunks: ArrayLike, transfers: str = "overlapped"
) -> tuple[Ints, Ints, Ints]:
    """Stages, micro-batches and chunks as integers of one shape.

    Parameters
    ----------
    kind, transfers
        One of SCHEDULE_KINDS, and one of TRANSFERS.
    stages, microbatches, chunks
        p, m and v.

    Returns
    -------
    p, m, v.

    Raises
    ------
    ValueError
        Naming the argument that is out of range or does not fit the others.
    """
    one_of("kind", kind, SCHEDULE_KINDS)
    one_of("transfers", transfers, TRANSFERS)
    counts = {"stages": stages, "microbatches": microbatches, "chunks": chunks}
    p, m, v = np.broadcast_arrays(*(whole(name, value) for name, value in counts.items()))
    if kind == "gpipe" and np.any(v > 1):
        raise ValueError(f"chunks is {chunks!r}: give 1, or a kind other than 'gpipe'")
    if np.any((v > 1) & (m % p > 0)):
        raise ValueError(
            f"microbatches is {microbatches!r} with stages {stages!r}: interleaving goes through p micro-batches of a "
            "chunk at a time, so give a multiple of stages, or chunks=1"
        )
    return p, m, v
