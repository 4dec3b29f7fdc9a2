"""Columns of a plan's tables on time: own runs beside the model and what they change, and times by software."""

from railcore.catalog.units import number, show
from railcore.planner.result import Plan
from railcore.planner.shown_numbers import interval
from railcore.strategies.labels import strategy_label
from railcore.training.runs import strategy_of_run


def own_run_columns(plan: Plan) -> dict[str, dict[str, list[str]]]:
    """Two tables by their captions, each as columns of texts; none without such runs.

    The first has a row for each run: measured, and modelled under its own strategy. The second has the iteration time
    of the plan's best network from published runs alone, and with the own ones.
    """
    runs, best = plan.case.own_errors, plan.best
    if runs.empty or best is None or best.design is None:
        return {}
    labels, of_plan = [], (plan.case.model.name, plan.case.machine.platform)
    for run in runs.itertuples():
        other = "" if (run.model, run.platform) == of_plan else f"{run.model} on {run.platform}: "
        labels.append(other + strategy_label(strategy_of_run(run).columns(run.global_batch)))
    ratios = runs["measured_iteration_s"] / runs["modelled_s"]
    beside = {
        "strategy": labels,
        "GPUs": [number(gpus, 9) for gpus in runs["gpus"]],
        "batch": [number(batch, 9) for batch in runs["global_batch"]],
        "measured": [show(seconds, "s", 4) for seconds in runs["measured_iteration_s"]],
        "modelled": [show(seconds, "s", 4) for seconds in runs["modelled_s"]],
        "measured over modelled": [f"{number(ratio, 3)} times" for ratio in ratios],
    }
    modelled_s, after = best.design.iteration_s, plan.expected_error
    errors = (plan.case.published_error(best.design.gpus), after)
    change = {
        "iteration": [f"before your {'run' if len(runs) == 1 else 'runs'}", "after"],
        "time": [show(seconds, "s", 4) for seconds in (modelled_s, modelled_s * after.middle)],
        "in nine of ten cases": [
            interval("iteration_s", modelled_s * error.low, modelled_s * error.high) for error in errors
        ],
    }
    return {"Your runs beside the model": beside, f"Your runs: before and after, on {best.name}": change}


def software_columns(plan: Plan) -> dict[str, list[str]]:
    """The best strategy under each software, and the runs that each was held against, as columns of texts."""
    table = plan.software
    return {
        "software": list(table["runtime"]),
        "iteration": [show(seconds, "s", 4) for seconds in table["iteration_s"]],
        "measured in nine of ten cases": [
            interval("iteration_s", low, high) for low, high in zip(table["low_s"], table["high_s"], strict=True)
        ],
        f"runs held against on {plan.case.machine.gpu}": [
            f"{runs}, up to {largest:,} GPUs" if runs else "none"
            for runs, largest in zip(table["runs"], table["largest"], strict=True)
        ],
        "limit": ["it fits" if limit == "feasible" else limit for limit in table["limit"]],
    }
