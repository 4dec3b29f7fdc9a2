"""Values, readings and reasons of flops2024's claims on size, memory and layout (sections 2 to 5), by claim."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from railcore.catalog.units import GB, GW, day, year
from railcore.datacenter.layouts import Layer
from railcore.datacenter.sizing import Sizing
from railcore.training import scaling_laws
from railcore.training.transformer import Transformer
from suite import workspace
from suite.flops2024 import specification
from suite.flops2024.specification import Cases
from suite.ledger import claims
from suite.ledger.readings import Entries, claim_verdicts, verdict_readings

RACKS, GPUS, SIZE = "flops2024.infra.racks", "flops2024.infra.gpus", "flops2024.scaling.params"
MODEL_SIZE = "flops2024.model.params"  # of the text's 96T in 134 layers
DEGREE, HIDDEN = "flops2024.layout.tensor_parallel", "flops2024.model.hidden"
EXPERT_SIZE, EXPERT_HIDDEN = "flops2024.moe.expert_model_params", "flops2024.moe.hidden"
ONE_YEAR, BOTH_SITES = "flops2024.scaling.params_one_year", "flops2024.moe.replicas_of_dcs"
MEMORY, RESIDUAL = "flops2024.memory", "flops2024.memory.residual"
DEVICE_MEMORY = {model: f"flops2024.{part}.device_memory" for model, part in (("dense", "layout"), ("moe", "moe"))}


def sizing_entries(
    machine: Sizing,
    chosen_law: str,
    training_s: float,
    cases: Cases,
    width_multiple: int,
    checked_batches: Sequence[int],
) -> Entries:
    """Values, reasons and readings of all claims on size, memory and layout, for `claims.record`.

    Parameters
    ----------
    machine
        What the budget buys.
    chosen_law, training_s
        Scaling law, and the training time that gives the printed size [s].
    cases
        The dense model and the mixture, in this order, on the racks.
    width_multiple
        That divides a hidden size.
    checked_batches
        Micro-batches for the check of the activation formula.

    Returns
    -------
    Three tables by claim id.
    """
    dense, law = next(iter(cases.values())), scaling_laws.scaling_law(chosen_law)
    after = law.parameters_after(np.array([training_s, training_s / 4]), machine.dense_flops)
    sizes = (SIZE, EXPERT_SIZE)
    values = layout_values(cases) | machine_values(machine) | shape_values(cases, width_multiple)
    values |= specification.values_by_id(
        {
            "scaling": dict(zip(("params", "params_one_year"), map(float, after), strict=True)),
            "layout": {
                "activations": specification.activation_formula_error(dense.model, dense.precision, checked_batches)
            },
        }
    )
    values |= {
        f"flops2024.{part}.layers": _rule(size, "layers") for part, size in zip(("model", "moe"), sizes, strict=True)
    }
    reasons = sizing_reasons(machine, chosen_law, cases, width_multiple)
    return Entries(values, reasons, sizing_readings(values, cases, machine))


def _rule(key: str, part: str) -> float:
    """Layers or hidden size of the depth-to-width rule for the size of a claim."""
    return float(getattr(scaling_laws.depth_and_width(claims.paper_value(key)), part))


def shape_values(cases: Cases, width_multiple: int) -> dict[str, float]:
    """Hidden sizes of the printed parameters in the printed layers, down to a multiple, by claim."""
    return {
        key: float(scaling_laws.whole_shape(claims.paper_value(size), width_multiple, case.model.layers).hidden)
        for case, key, size in zip(cases.values(), (HIDDEN, EXPERT_HIDDEN), (MODEL_SIZE, EXPERT_SIZE), strict=True)
    }


def machine_values(machine: Sizing) -> dict[str, float]:
    """Values of the claims on the machine; powers are those of the printed GPUs, as the document has them."""
    powered = machine if workspace.parameterized() else _of_racks(machine, claims.paper_value(GPUS) / machine.rack_gpus)
    return _infra(machine) | _powers(powered)


def _infra(machine: Sizing) -> dict[str, float]:
    quantities = specification.machine_quantities(machine) | {"fp4_dense": float(machine.dense_flops)}
    return specification.values_by_id({"infra": quantities})


def _powers(machine: Sizing) -> dict[str, float]:
    return {key: value for key, value in _infra(machine).items() if "power" in key}


def _of_racks(machine: Sizing, racks: Any) -> Sizing:
    return replace(machine, budget_usd=racks * machine.rack_usd / machine.compute_share)


def layout_values(cases: Cases) -> dict[str, float]:
    """Values of the claims on memory and layout. cases: the dense model and the mixture, in this order."""
    dense, mixture = (specification.model_quantities(case, float(case.site.memory_bytes)) for case in cases.values())
    return specification.values_by_id({"model": dense, "memory": dense, "layout": dense, "moe": mixture})


def sizing_readings(ours: Mapping[str, float], cases: Cases, machine: Sizing) -> dict[str, str]:
    """Claims whose verdict depends on how the text is read: what was read, and what the other readings give.

    Parameters
    ----------
    ours
        Values of all claims.
    cases, machine
        As in `sizing_entries`.

    Returns
    -------
    Texts by claim id.
    """
    if workspace.parameterized():  # the printed racks may not hold the user's models
        return {}
    dense, mixture = cases.values()
    printed_racks = {
        "the printed 23.3K": claims.paper_value(RACKS),
        "the racks of the printed 1.67 million GPUs": claims.paper_value(GPUS) // machine.rack_gpus,
    }
    bought = f"{machine.racks:,.0f} racks, which the budget's share buys"
    by_racks, powers = {}, {bought: _powers(machine)}
    for name, racks in printed_racks.items():
        infra = _infra(_of_racks(machine, racks))
        smaller = {key: case.changed(site={"racks": int(racks)}) for key, case in cases.items()}
        own = {key: ours[key] for key in (RACKS, GPUS, *_powers(machine))}
        by_racks[name] = infra | layout_values(smaller) | own
    powers["the printed 23.3K racks"] = _powers(_of_racks(machine, claims.paper_value(RACKS)))
    one, laid, widths = dense.layer, dense.layout, {HIDDEN: MODEL_SIZE, EXPERT_HIDDEN: EXPERT_SIZE}
    active = [float(case.layout.device_bytes + case.layout.active_bytes) for case in (dense, mixture)]
    left = claims.paper_value(f"{MEMORY}.total") - sum(one.state_bytes.values())
    return verdict_readings(
        ours,
        {
            bought: by_racks,
            f"the power of the printed {claims.paper_value(GPUS) / 1e6:.2f} million GPUs": powers,
            f"the smallest degree of all {dense.site.rack_gpus}, as section 4 says": {
                "the smallest that divides a rack": {DEGREE: float(laid.tensor)}
            },
            "training state alone, for section 4 keeps activations in the hosts": {
                "with those of one micro-batch": dict(zip(DEVICE_MEMORY.values(), active, strict=True))
            },
            "10 s b h bytes of one layer and micro-batch, as section 4 prints": {
                "half a byte for each of the ten": {RESIDUAL: ours[RESIDUAL] * one.precision.element},
                "what training state leaves of the printed total": {RESIDUAL: left},
            },
            "the width of the printed parameters in the printed layers": {
                "the rule's for these parameters": {key: _rule(size, "hidden") for key, size in widths.items()},
                "the rule's for 103.8T": {HIDDEN: _rule(SIZE, "hidden")},
            },
        },
    )


def sizing_reasons(machine: Sizing, chosen_law: str, cases: Cases, width_multiple: int) -> dict[str, str]:
    """Why a claim comes out as it does.

    Parameters
    ----------
    machine, chosen_law, cases
        As in `sizing_entries`.
    width_multiple
        That divides a hidden size.

    Returns
    -------
    Texts by claim id.
    """
    (dense, mixture), paper, flops = cases.values(), claims.paper_value, machine.dense_flops
    model, one, memory_bytes = dense.model, dense.layer, dense.site.memory_bytes
    laws = [scaling_laws.scaling_law(chosen_law, reading) for reading in ("table", "printed")]
    after = [float(law.parameters_after(4 * year, flops)) / 1e12 for law in laws]
    layers, two = _rule(SIZE, "layers"), mixture.layout
    left = paper(f"{MEMORY}.total") - sum(one.state_bytes.values())
    needed = one.layer_state_bytes + one.activation_bytes
    least = np.ceil(needed / memory_bytes)
    texts = {
        GPUS: f"{machine.racks:,.0f} racks of {machine.rack_gpus} GPUs; 23.3K racks have "
        f"{machine.racks // 100 * 100 * machine.rack_gpus / 1e6:.4f} million, printed in three digits and not rounded",
        SIZE: f"{float(laws[0].training_time(paper(SIZE), flops)) / day:,.1f} days at the dense rate give the printed "
        f"value, four years of 365 days {after[0]:.2f}e12 by least squares of the table and {after[1]:.2f}e12 by the "
        "printed exponent",
        "flops2024.model.layers": f"the rule's {layers:.2f} rounds to {layers:.0f}; 134 is nearest "
        f"from {float(scaling_laws.parameters_at_depth(133.5)) / 1e12:.1f}e12 parameters up",
        HIDDEN: f"parameters are 12 L h^2; the width goes down to a multiple of {width_multiple}, the heads",
        ONE_YEAR: f"a quarter of the time above; the printed size needs "
        f"{float(laws[0].training_time(paper(ONE_YEAR), flops)) / day:,.0f} days",
        BOTH_SITES: f"{two.racks_per_layer_here:.0f} racks hold a layer in each of {two.datacenters} datacenters, "
        f"{two.layers_per_rack:.0f} replicas a rack; the printed ones are those of {two.racks_per_layer:.0f} racks, "
        "which two datacenters cannot share evenly",
        RESIDUAL: f"{one.precision.state:g} B of every parameter leave {left / GB:.1f} GB of the printed total",
        DEGREE: f"at {least:.0f} a GPU holds {needed / least / GB:.1f} of {memory_bytes / GB:.0f} GB; all else here is "
        "at the printed degree",
        DEVICE_MEMORY["moe"]: f"{mixture.layout.device_bytes / GB:.2f} GB, of which the document cuts off the digits",
        DEVICE_MEMORY["dense"]: "training state alone, as for the mixture; with the activations of one micro-batch "
        f"{(dense.layout.device_bytes + dense.layout.active_bytes) / GB:.1f} GB",
    }
    return texts | _power_reasons(machine) | _state_reasons(model, one)


def _power_reasons(machine: Sizing) -> dict[str, str]:
    rule = f"network and storage are {machine.other_power_share:.0%} of the racks' power, the document's rule of thumb"
    reasons = {"flops2024.infra.it_power": rule}
    for end, pue in zip(("low", "high"), np.ravel(machine.pue), strict=False):  # a catalog has one PUE
        key = f"flops2024.infra.total_power_{end}"
        printed_racks = claims.paper_value(GPUS) / machine.rack_gpus
        chain = printed_racks * machine.rack_w * np.cumprod([1, 1 + machine.other_power_share, pue])
        meets = claim_verdicts({key: float(chain[-1])})[key] == "reproduced"
        entry, (racks_w, it_w, total_w) = claims.claim(key), (f"{power / GW:.3f}" for power in chain)
        least = entry.paper_value * (1 - entry.tolerance) / chain[-1] * claims.paper_value(GPUS) / 1e6
        reasons[key] = (
            f"these draw {racks_w} GW, x {1 + machine.other_power_share:g} = {it_w}, x {pue:g} = {total_w} GW"
            + f"; from {least:.4f} million GPUs on, which are printed alike, it comes out" * (not meets)
        )
    return reasons


def _state_reasons(model: Transformer, one: Layer) -> dict[str, str]:
    reasons, params = {}, model.total_parameters
    for part, state in zip(("master", "gradients", "optimizer"), one.state_bytes.values(), strict=True):
        meant = claims.paper_value(f"{MEMORY}.{part}") / state * params
        tokens = (meant - model.layers * (model.attention_weights + model.ffn_weights)) / 2 / model.hidden
        reasons[f"{MEMORY}.{part}"] = (
            f"{params / 1e12:.4f}e12 parameters; the printed bytes mean {meant / 1e12:.4f}e12, as a vocabulary of "
            f"{tokens:,.0f} would give, and the printed total "
            f"{claims.paper_value(f'{MEMORY}.total') / one.precision.state / 1e12:.4f}e12"
        )
    return reasons
