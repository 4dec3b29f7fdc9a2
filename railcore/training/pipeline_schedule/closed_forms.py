"""Closed forms of pipeline schedules with stages of equal time; symbols as in the folder's docstring."""

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, Ints, at_least, one_of, positive, whole

SCHEDULE_KINDS = ("gpipe", "1f1b", "interleaved")
TRANSFERS = ("overlapped", "duplex", "blocking")


def critical_sends(
    stages: ArrayLike,
    microbatches: ArrayLike,
    chunks: ArrayLike = 1,
    kind: str = "1f1b",
    transfers: str = "overlapped",
) -> Ints:
    """Transfers that lengthen the iteration, in closed form, for stages of equal time: 0 for p = 1, else

    - overlapped: gpipe 2 (p - 1), 1f1b 2 (p - 1) + 2 floor((m - 1) (p - 1) / p), interleaved 2 (p v - 1);
    - duplex: gpipe 2 (p + m - 2), 1f1b 2 (p + m - 2) less 1 for m > 1; with p = 2 m + 1;
    - blocking: gpipe 2 (p - 1) + 4 (m - 1), 1f1b 2 (p + m - 2) + 2 max(0, m - 3); with p = 2 both 2 m.

    Exact for overlapped up to c = min(t_f, t_b) / v, for duplex always, for blocking up to half of min(t_f, t_b) in
    1f1b and always in gpipe; beyond that a lower bound. Read off timetables, and tested against them.

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
        For interleaved with duplex or blocking, which have no short form: take `schedule`.
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
        As in `critical_sends`, which gives n; its limits hold here too.
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
    times = positive("forward_s", forward_s, "seconds") + positive("backward_s", backward_s, "seconds")
    return (np.asarray(stages) - 1) * times / np.asarray(chunks) + n * at_least("send_s", send_s)


def pipeline_time(
    stages: ArrayLike,
    microbatches: ArrayLike,
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    chunks: ArrayLike = 1,
    send_s: ArrayLike = 0.0,
    kind: str = "1f1b",
    transfers: str = "overlapped",
) -> Floats:
    """Time of an iteration's passes, in closed form: m (t_f + t_b) + `pipeline_bubble_time`.

    Parameters
    ----------
    stages, microbatches, forward_s, backward_s, chunks, send_s, kind, transfers
        As in `pipeline_bubble_time`.

    Returns
    -------
    Seconds, of the arguments' shape.
    """
    bubble = pipeline_bubble_time(stages, microbatches, forward_s, backward_s, chunks, send_s, kind, transfers)
    return np.asarray(microbatches) * np.add(forward_s, backward_s) + bubble


def peak_microbatches(
    stages: ArrayLike, microbatches: ArrayLike, chunks: ArrayLike = 1, stage: ArrayLike = 0, kind: str = "1f1b"
) -> Floats:
    """Most micro-batches whose activations stage i holds at once, in closed form.

    gpipe m; 1f1b min(m, p - i); interleaved min(m, (2 (p - 1 - i) + (v - 1) p + 1) / v), a chunk counting 1/v.

    Parameters
    ----------
    stages, microbatches, chunks
        p, m and v.
    stage
        i, from 0.
    kind
        As in `critical_sends`.

    Returns
    -------
    Micro-batches, of the arguments' shape.

    References
    ----------
    Narayanan et al. 2021, section 2.2.
    """
    p, m, v = checked_sizes(kind, stages, microbatches, chunks)
    i = whole("stage", stage, least=0)
    if np.any(i >= p):
        raise ValueError(f"stage is {stage!r}: give 0 to stages - 1, the first being 0")
    return np.minimum(m * v, warm_up(kind, p, m, v, i) + 1) / v


def warm_up(kind: str, p: ArrayLike, m: ArrayLike, v: ArrayLike, i: ArrayLike) -> Ints:
    """Forward passes of a chunk in stage i before it turns to one forward, one backward.

    Parameters
    ----------
    kind, p, m, v, i
        One of SCHEDULE_KINDS, stages, micro-batches, chunks and the stage from 0.

    Returns
    -------
    Whole numbers, of the arguments' shape.
    """
    p, m, v, i = (np.asarray(n) for n in (p, m, v, i))
    if kind == "gpipe":
        return m * v + 0 * i
    return np.minimum(m * v, np.where(v > 1, 2 * (p - 1 - i) + (v - 1) * p, p - 1 - i))


def checked_sizes(
    kind: str, stages: ArrayLike, microbatches: ArrayLike, chunks: ArrayLike, transfers: str = "overlapped"
) -> tuple[Ints, Ints, Ints]:
    """Stages, micro-batches and chunks as integers of one shape.

    Parameters
    ----------
    kind, stages, microbatches, chunks, transfers
        As in `schedule`.

    Returns
    -------
    p, m and v.

    Raises
    ------
    ValueError
        Naming what is out of range.
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
