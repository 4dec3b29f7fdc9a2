"""railonly2025's Fig. 3 and hierarchical AllGather: what a dense model sends by each reading, and the claims."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from railcore.catalog import units
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.traffic import Traffic, from_transfers, iteration_traffic, traffic_summaries
from railcore.training.transfers import Transfer, step_transfers
from railcore.training.transformer import Transformer, catalog_model
from suite.emulator.collective_schedules import domain_rail_bytes, hierarchical_schedule
from suite.ledger import claims
from suite.ledger.readings import Entries, with_prefix

# What the papers on rail-only networks count: gradients of two bytes, whole boundaries between stages.
PAPER_RUNTIME = Runtime("as the papers count", gradient_bytes=2, scatter_gather=False)
_HB_PAIR, _NIC_PAIR = "fig3.hb_pair_traffic", "fig3.nic_pair_traffic"
_NETWORK = "hier_allgather.network_bytes"


def counted_transfers(
    model: Transformer, strategy: Strategy, global_batch: int, passes: Collection[str], embeddings: bool
) -> list[Transfer]:
    """Transfers of a step, its tensor collectives of some passes only.

    Parameters
    ----------
    model, strategy, global_batch, embeddings
        As in `transfers.transfer_table`.
    passes
        "forward", "backward", "recompute": those whose tensor collectives count.

    Returns
    -------
    A row for each kind of transfer.
    """
    rows = step_transfers(model, strategy, global_batch, PAPER_RUNTIME, embeddings=embeddings)
    return [row for row in rows if row.kind not in ("tensor", "sequence") or row.phase in passes]


def entry_readings(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    hb_domain_size: int,
    ring_kinds: Iterable[str],
) -> pd.DataFrame:
    """Largest entries by what the text leaves open: passes, inputs gathered again, rings one way or both, the ends.

    Parameters
    ----------
    model, strategy, global_batch
        As in `transfers.transfer_table`.
    hb_domain_size
        GPUs of an HB domain.
    ring_kinds
        Kinds of traffic that run in rings.

    Returns
    -------
    Index case; columns domain_pair_bytes, network_pair_bytes, data_pair_bytes (the data-parallel ring's, between
    domains), nic_bytes.
    """
    counts = {
        "one pass": (["forward"], True),
        "both passes": (["forward", "backward"], True),
        "inputs gathered again": (["forward", "backward"], False),
    }
    cases = {}
    for way, (count, (passes, kept)), ends in product(("ring", "bidirectional_ring"), counts.items(), (False, True)):
        other = replace(strategy, keep_gathered=kept)
        rows = counted_transfers(model, other, global_batch, passes, ends)
        name = f"{way.replace('_', ' ')}, {count}{', with the ends' * ends}"
        cases[name] = from_transfers(strategy, rows, dict.fromkeys(ring_kinds, way))
    table = traffic_summaries(cases, hb_domain_size).set_index(["kind", "case"])
    entries = table.loc["all"].assign(data_pair_bytes=table.loc["data", "network_pair_bytes"])
    return entries[["domain_pair_bytes", "network_pair_bytes", "data_pair_bytes", "nic_bytes"]]


def stage_entries(traffic: Traffic, strategy: Strategy, stages: int) -> pd.DataFrame:
    """`Traffic.entries` between the GPUs of the first pipeline stages."""
    stage = strategy.coordinates(range(traffic.gpus))["pipeline"]
    return traffic.entries(0, int((stage < stages).sum()))


def counted_all_gathers(grids: Iterable[Sequence[int]]) -> pd.DataFrame:
    """The hierarchical AllGather of D = 1 on x GPUs in each of y HB domains: as printed, and its schedule counted.

    grids: pairs (x, y). Columns x, y, D(y-1)/x, one_rail, network, D(x-1), domain, across_rails.
    """
    rows = []
    for x, y in grids:
        sent = domain_rail_bytes(hierarchical_schedule("all_gather", x, y), 1.0, x)
        network, domain = ((y - 1) / x, sent.by_rail.max(), sent.network), (x - 1, sent.by_domain.max())
        rows.append((x, y, *network, *domain, sent.across_rails))
    columns = ["x", "y", "D(y-1)/x", "one_rail", "network", "D(x-1)", "domain", "across_rails"]
    return pd.DataFrame(rows, columns=columns)


def dense_traffic_claims(
    model: Transformer,
    strategy: Strategy,
    traffic: Traffic,
    hb_domain_size: int,
    entries: pd.DataFrame,
    grids: pd.DataFrame,
) -> Entries:
    """Values, reasons and readings of the claims on Fig. 3 and the hierarchical AllGather.

    Parameters
    ----------
    model, strategy, traffic, hb_domain_size
        The model, how it is split, its traffic, and GPUs of an HB domain.
    entries, grids
        Of `entry_readings` and `counted_all_gathers`.

    Returns
    -------
    For `claims.record`.
    """
    whole = traffic.summary(hb_domain_size).set_index("kind").loc["all"]
    one, four = (stage_entries(traffic, strategy, stages) for stages in (1, 4))
    between = one[one["source"] // hb_domain_size != one["target"] // hb_domain_size]
    pairs = {_HB_PAIR: "domain_pair_bytes", _NIC_PAIR: "network_pair_bytes"}
    values = {
        **{name: units.convert(whole[column], "GiB") for name, column in pairs.items()},
        "fig3.stage_gpus": one["source"].nunique(),
        "fig3.four_stage_gpus": four["source"].nunique(),
        "fig3.cluster_gpus": traffic.entries()["source"].nunique(),
        "fig3.rail_stride": (between["source"] - between["target"]).abs().min(),
        "fig3.cross_rail_traffic": whole["cross_rail_bytes"],
        "fig3.gpt1t_parameters": model.total_parameters,
        _NETWORK: abs(grids["D(y-1)/x"] / grids["one_rail"] - 1).max(),
        "hier_allgather.hb_bytes": abs(grids["D(x-1)"] / grids["domain"] - 1).max(),
        "hier_allgather.cross_rail_bytes": grids["across_rails"].max(),
    }
    inside = units.convert(entries["domain_pair_bytes"], "GiB")
    cases = {"one pass": "ring, one pass", "both passes in two-way rings": "bidirectional ring, both passes"}
    others = ", ".join(f"{name}: {units.number(inside[case], 4)} GiB" for name, case in cases.items())
    reasons = {
        _HB_PAIR: "the text has an AllGather and a ReduceScatter of every operator and a backward pass; it does not "
        "say which passes and rings its figure counts, nor whether its GB are GiB"
    }
    off = abs(grids["D(y-1)/x"] / grids["network"] - 1).max()
    readings = {
        _HB_PAIR: f"both passes, in one-way rings ({others})",
        _NIC_PAIR: f"GB of the figure are GiB (GB: {units.number(units.convert(whole[pairs[_NIC_PAIR]], 'GB'), 3)})",
        _NETWORK: "bytes on one rail, as the other phase's D(x - 1) are those in one HB domain (on all rails, "
        f'as "by all GPUs" says, D(y - 1): off by up to {off:.3g})',
    }
    return with_prefix("railonly2025", values, reasons, readings)


def entry_marks(values: Mapping[str, float]) -> dict[float, tuple[str, str]]:
    """Entries of Fig. 3 [bytes] that the document means if its GB are GiB: our verdict, and its words.

    values: ours, by claim id.
    """
    entries = {}
    ours = {name: values[name] for name in (f"railonly2025.{name}" for name in (_HB_PAIR, _NIC_PAIR))}
    for mark in claims.marks(ours).values():
        {f"railonly2025.{name}": values[f"railonly2025.{name}"] for name in (_HB_PAIR, _NIC_PAIR)}
        size, printed = units.GiB * mark.value, mark.text.replace("GiB", "GB")
        entries[size] = mark.verdict, f"{printed}\n(if GiB: {units.show(size, 'B', 3)})"
    return entries


def first_gpus_entries(name: str, tensor: int, pipeline: int, data: int) -> pd.DataFrame:
    """Entries between the first 64 GPUs of a catalog model under a split, eight sequences for each data-parallel rank.

    Parameters
    ----------
    name
        Of the model in the catalog.
    tensor, pipeline, data
        Ranks of the split.

    Returns
    -------
    Columns of `Traffic.entries`.
    """
    strategy = Strategy(tensor, pipeline=pipeline, data=data, sequence_parallel=tensor > 1)
    traffic = iteration_traffic(catalog_model(name), strategy, 8 * data, PAPER_RUNTIME)
    return traffic.entries(0, min(64, traffic.gpus))
