"""Values, readings and reasons of flops2024's claims on size, memory and layout (sections 2 to 5), by claim."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from railcore.catalog.units import GB, GW, day, year
from railcore.datacenter.layouts import Layer
from railcore.datacenter.sizing import Sizing
from railcore.training import scaling_laws
from railcore.training.transformer import Transformer
from suite import workspace
from suite.flops2024 import specification
from suite.flops2024.specification import Cases
from suite.flops2024.training_case import TrainingCase
from suite.ledger import claims
from suite.ledger.readings import Entries, claim_verdicts, verdict_readings

RACKS, GPUS, SIZE = "flops2024.infra.racks", "flops2024.infra.gpus", "flops2024.scaling.params"
MODEL_SIZE = "flops2024.model.params"  # of the text's 96T in 134 layers
DEGREE, HIDDEN = "flops2024.layout.tensor_parallel", "flops2024.model.hidden"
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
    chosen, mixed = (_rule_shape(key) for key in (SIZE, "flops2024.moe.expert_model_params"))
    values = layout_values(cases) | specification.values_by_id(
        {
            "infra": specification.machine_quantities(machine) | {"fp4_dense": float(machine.dense_flops)},
            "scaling": {"params": float(law.parameters_after(training_s, machine.dense_flops))},
            "model": chosen,
            "layout": {
                "activations": specification.activation_formula_error(dense.model, dense.precision, checked_batches)
            },
            "moe": mixed,
        }
    )
    reasons = sizing_reasons(machine, chosen_law, dense, width_multiple)
    return Entries(values, reasons, sizing_readings(values, cases, machine))


def _rule_shape(key: str) -> dict[str, float]:
    """Layers and hidden size of the depth-to-width rule for the size of a claim."""
    rule = scaling_laws.depth_and_width(claims.paper_value(key))
    return {"layers": float(rule.layers), "hidden": float(rule.hidden)}


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
    by_racks = {}
    for name, racks in printed_racks.items():
        bought = replace(machine, budget_usd=racks * machine.rack_usd / machine.compute_share)
        infra = specification.values_by_id({"infra": specification.machine_quantities(bought)})
        smaller = {key: case.changed(site={"racks": int(racks)}) for key, case in cases.items()}
        by_racks[name] = infra | layout_values(smaller) | {RACKS: ours[RACKS], GPUS: ours[GPUS]}
    one, laid = dense.layer, dense.layout
    active = [float(case.layout.device_bytes + case.layout.active_bytes) for case in (dense, mixture)]
    left = claims.paper_value(f"{MEMORY}.total") - sum(one.state_bytes.values())
    return verdict_readings(
        ours,
        {
            f"{machine.racks:,.0f} racks, which the budget's share buys": by_racks,
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
            "the rule's width at 103.8T": {
                "the rule at 96T": {HIDDEN: _rule_shape(MODEL_SIZE)["hidden"]},
                "96T in 134 layers": {HIDDEN: float(dense.model.hidden)},
            },
        },
    )


def sizing_reasons(machine: Sizing, chosen_law: str, dense: TrainingCase, width_multiple: int) -> dict[str, str]:
    """Why a claim comes out as it does.

    Parameters
    ----------
    machine, chosen_law
        As in `sizing_entries`.
    dense
        The dense model on the racks.
    width_multiple
        That divides a hidden size.

    Returns
    -------
    Texts by claim id.
    """
    paper, flops = claims.paper_value, machine.dense_flops
    model, one, memory_bytes = dense.model, dense.layer, dense.site.memory_bytes
    laws = [scaling_laws.scaling_law(chosen_law, reading) for reading in ("table", "printed")]
    after = [float(law.parameters_after(4 * year, flops)) / 1e12 for law in laws]
    layers = _rule_shape(SIZE)["layers"]
    narrow = scaling_laws.whole_shape(paper(MODEL_SIZE), width_multiple, model.layers).hidden
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
        HIDDEN: f"96e12 in {model.layers} layers, down to a multiple of {width_multiple}, have {narrow:,.0f}",
        RESIDUAL: f"{one.precision.state:g} B of every parameter leave {left / GB:.1f} GB of the printed total",
        DEGREE: f"at {least:.0f} a GPU holds {needed / least / GB:.1f} of {memory_bytes / GB:.0f} GB; all else here is "
        "at the printed degree",
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
        racks_w, it_w, total_w = (f"{power / GW:.3f}" for power in chain)
        reasons[key] = (
            f"the printed {claims.paper_value(GPUS) / 1e6:.2f} million GPUs draw {racks_w} GW, "
            f"x {1 + machine.other_power_share:g} = {it_w}, x {pue:g} = {total_w} GW, "
            f"{'as printed' if meets else 'which misses the printed value too'}"
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
