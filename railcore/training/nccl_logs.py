"""Times of collectives as nccl-tests prints them, or writes them as JSON (`all_reduce_perf -J file`).

A size is the full buffer of a rank, and of an all-to-all what a rank sends in all, as everywhere in railcore. Times are
those of separate buffers (out of place), else of one. rccl-tests prints the same. Names of hosts are counted, not kept.

Source: GitHub NVIDIA/nccl-tests, src/util.cu@0fdb00a (JSON version 2) and src/common.cu.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from railcore.catalog.units import us

PROGRAMS = {  # of nccl-tests, and collectives as data/measured/collectives.csv names them
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "alltoall",
}
_TAG = re.compile(r"^\[[^\]]*\]<std\w+>:?\s?|^\s*\d+:\s+(?=#)")  # that mpirun or srun puts before a line
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s.*?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)")
_PROGRAM = re.compile(r"(\w+)_perf")
_CUT = "is the log cut? Give all that the program printed"


class NcclLog(NamedTuple):
    """What a log says.

    collective: as data/measured/collectives.csv names it. gpus, hosts: in the group. card: name of the GPUs.
    date: of the start, "" where the log does not say. times: columns message_bytes and seconds.
    """

    collective: str
    gpus: int
    hosts: int
    card: str
    date: str
    times: pd.DataFrame


def read_nccl_log(text: str, name: str) -> NcclLog:
    """A log of nccl-tests, as text or as JSON.

    text: its content. name: of its file, for messages, and for the collective where the log does not say it.
    Raises ValueError with the line, the value and a remedy: for another program, wrong results, times of the CPU, a log
    that is cut, and one without its list of devices.
    """
    if text.lstrip().startswith("{"):
        return _of_json(text, name)
    lines = [(number, _TAG.sub("", line).strip()) for number, line in enumerate(text.splitlines(), start=1)]
    started = [line for _, line in lines if "Collective test starting" in line]
    ranks = [(int(found[1]), found[2], found[3].strip()) for _, line in lines if (found := _RANK.match(line))]
    heads = [line for _, line in lines if re.match(r"#\s+size\s+count.*\btime\b|#\s+size\s+count.*cputime", line)]
    if not heads:
        raise ValueError(f"{name} is no log of nccl-tests: give what all_reduce_perf and its kin print")
    if "cputime" in heads[0]:
        raise ValueError(f"{name} has times of the CPU: run nccl-tests without -C")
    for number, line in lines:
        if re.search(r"Out of bounds values\s*:\s*[1-9]", line):
            raise ValueError(f"{name} line {number}: wrong results ({line.strip('# ')}): mend the cluster first")
    times = list(_printed_times(lines, heads[0].split().index("time") - 1, name))
    return _log(started[0].rpartition(":")[2] if started else "", ranks, times, "", name)


def _printed_times(lines: list[tuple[int, str]], first: int, name: str) -> Iterator[tuple[float, float]]:
    """Size and time of each row: size, count, type, ..., then time, algbw, busbw and #wrong, twice.

    first: place of the first time; older versions have fewer columns before it.
    """
    for number, line in lines:
        words = line.split()
        if len(words) < 2 or not (words[0].isdigit() and words[1].isdigit()):
            continue
        if len(words) < first + 4:
            raise ValueError(f"{name} line {number} has {len(words)} cells of {first + 8}: {_CUT}")
        time_text, wrong = words[first], words[first + 3]
        try:
            seconds = float(time_text) * us
            errors = 0.0 if wrong == "N/A" else float(wrong)
        except ValueError:
            raise ValueError(f"{name} line {number}: time {time_text!r}, #wrong {wrong!r}: {_CUT}") from None
        # Older versions print the largest error, such as 2e-07, in place of the number of wrong elements.
        if errors >= 1:
            raise ValueError(f"{name} line {number}: {wrong} wrong results: mend the cluster first")
        yield float(words[0]), seconds


def _of_json(text: str, name: str) -> NcclLog:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is no JSON ({error}): {_CUT}") from None
    config, results = whole.get("config"), whole.get("results")
    if not isinstance(config, dict) or not isinstance(results, list):
        raise ValueError(f"{name} has no config and results: give the file that nccl-tests writes with -J")
    times = []
    for place, row in enumerate(results, start=1):
        part = row.get("out_of_place") or row.get("in_place") or {}
        if "time" not in part:
            what = "times of the CPU: run nccl-tests without -C" if "cpu_time" in part else f"no time: {_CUT}"
            raise ValueError(f"{name} result {place} has {what}")
        if (wrong := part.get("nwrong")) and float(wrong) >= 1:
            raise ValueError(f"{name} result {place}: {wrong:g} wrong results: mend the cluster first")
        times.append((float(row["size"]), float(part["time"]) * us))
    ranks = [(row["rank"], row["hostname"], row["device_info"]) for row in config.get("devices", ())]
    program = next(iter(whole.get("args") or ()), "")
    return _log(program, ranks, times, str(whole.get("start_time", ""))[:10], name)


def _log(
    program: str, ranks: list[tuple[int, str, str]], times: list[tuple[float, float]], date: str, name: str
) -> NcclLog:
    said = [found[1] for text in (program, name) if (found := _PROGRAM.search(text.replace("_mpi", "")))]
    collective = next((PROGRAMS[each] for each in said if each in PROGRAMS), "")
    if not collective:
        wanted = ", ".join(f"{each}_perf" for each in PROGRAMS)
        what = f"is of {said[0]}_perf" if said else "does not say its collective"
        raise ValueError(f"{name} {what}: give a log of {wanted}, or name the file after its program")
    if not ranks:
        raise ValueError(f"{name} has no list of devices (# Rank 0 ...): {_CUT}")
    gpus = 1 + max(rank for rank, *_ in ranks)
    if len({rank for rank, *_ in ranks}) < gpus:
        raise ValueError(f"{name} lists {len(ranks)} of {gpus} ranks: {_CUT}")
    if gpus < 2:
        raise ValueError(f"{name} is of one GPU, which sends nothing: run it on several (-g 8)")
    cards = sorted({card for *_, card in ranks})
    if len(cards) > 1:
        raise ValueError(f"{name} is of {' and '.join(cards)}: give a log of one kind of GPU")
    table = pd.DataFrame(times, columns=["message_bytes", "seconds"])
    if not len(table) or not (table["seconds"] > 0).all() or not table["seconds"].map(math.isfinite).all():
        raise ValueError(f"{name} has a row without a time, or none: {_CUT}")
    hosts = len({host for _, host, _ in ranks})
    return NcclLog(collective, gpus, hosts, cards[0], date, table[table["message_bytes"] > 0])


def looks_like_log(value: Any) -> bool:
    """Whether a JSON document is one of nccl-tests."""
    return isinstance(value, dict) and "results" in value and "nccl_version" in value
