"""railonly2025's claims on a mixture of experts: its share of the traffic, and what forwarding costs."""

from dataclasses import replace

from railcore.documents.railonly2025.moe_slowdowns import iteration_overheads, platform_links
from railcore.facts import claims, units
from railcore.training.experts.expert_job import ExpertJob

SHARE = "railonly2025.fig4.all_to_all_share"
CHIPS = {"a100": "DGX A100", "h100": "DGX H100"}


def share_readings(job: ExpertJob) -> dict[str, float]:
    """Share of the all-to-all in the traffic, by what the document leaves open and by what is counted."""
    paths = job.volumes().pivot(index="kind", columns="path", values="bytes")
    sent, reduced = paths.loc["all-to-all"], paths.loc["AllReduce"]
    forwarded = sent["NIC, other rail"]
    untied = replace(job, model=replace(job.model, tied_embeddings=False))
    wide, again = replace(job, wire=replace(job.wire, gradient_bytes=4)), replace(job, recompute="full")
    return {
        "as above": job.all_to_all_share,
        "output embedding not tied to the input's": untied.all_to_all_share,
        "gradients of 4 bytes": wide.all_to_all_share,
        "forward pass recomputed: 6 exchanges": again.all_to_all_share,
        "both of these": replace(wide, recompute="full").all_to_all_share,
        "of the all-to-all only what changes rails": forwarded / (forwarded + reduced.sum()),
        "bytes on links, forwarded ones twice": (sent.sum() + forwarded) / (paths.sum().sum() + forwarded),
        "bytes on NICs alone": 1 - reduced.filter(like="NIC").sum() / paths.filter(like="NIC").sum().sum(),
    }


def moe_claims(job: ExpertJob) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Values of the claims, reasons and readings, for `claims.record`."""
    shares, printed = share_readings(job), claims.paper_value(SHARE)
    needed, sequences = job.sequences_for_share(printed), job.sequences_per_gpu
    values = {"railonly2025.fig4.gpus": job.iteration_traffic.gpus, SHARE: job.all_to_all_share}
    reasons = {
        SHARE: f"the printed share needs {needed:.3g} sequences a GPU, no whole number ({needed * job.gpus:.0f} in "
        f"all), and what changes rails alone would be {shares['of the all-to-all only what changes rails']:.3g}",
    }
    readings = {
        SHARE: f"batch and precision are not printed; {sequences:g} sequences a GPU, the batch of the model's own "
        f"paper, and 2-byte gradients; gradients of 4 bytes give {shares['gradients of 4 bytes']:.3g}, with the "
        f"forward pass recomputed {shares['both of these']:.3g}",
    }
    overheads = iteration_overheads(job, list(CHIPS.values())).set_index("platform")
    for chip, platform in CHIPS.items():
        link, row = platform_links(platform), overheads.loc[platform]
        alone, whole = f"railonly2025.moe.slowdown_{chip}", f"railonly2025.text.intro_moe_overhead_{chip}"
        values |= {alone: row["bandwidth_ratio"], whole: row["iteration"]}
        wanted, overall, half = claims.paper_value(alone), claims.paper_value(whole), values[alone] / 2
        ended = "rounded" if units.number(half, 2) == units.number(wanted / 2, 2) else "cut off"
        reasons[alone] = (
            f"{units.show(link.nic_Bps, 'bps')} over {units.show(link.hb_Bps, 'bps')} in one direction; the printed "
            f"value needs {units.show(link.nic_Bps / wanted, 'bps', 4)}. A guess at its origin: over the sum of both "
            f"directions the ratio is {half:.2%}, {ended} to {wanted / 2:.1%} and doubled. Counted on {job.domains} "
            f"domains of {job.hb_domain_size} with phases in turn it is {row['all_to_all']:.2%}, pipelined 0"
        )
        reasons[whole] = (
            f"contradiction: the routing section has {wanted:.1%} for the all-to-all alone, {printed:.0%} of the "
            f"traffic, thus {wanted * printed:.1%} by volume; all {overall:.1%} only where nothing but all-to-all "
            "takes time"
        )
        readings[whole] = (
            f"share of the iteration, compute at the dense peak, phases in turn; {row['by_volume']:.1%} by volume, "
            f"{row['communication']:.1%} of all communication time, pipelined 0"
        )
    return values, reasons, readings
