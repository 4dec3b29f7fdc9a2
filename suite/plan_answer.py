"""What to buy, in sentences: the answer of notebook 20."""

from railcore.catalog import units
from railcore.planner import Plan, shown
from railcore.planner.choice import missed_limits
from railcore.planner.goals import NO_DIFFERENCE


def bought_words(plan: Plan) -> str:
    """The network to buy, its price and days beside another's, how sure the days are, and what to ask for first.

    plan: whose best network meets the limits. Beside rail-optimized, or where that is the best or none beside the
    dearest; a price is the network's alone.
    """
    best, others = plan.best, plan.possible[1:]
    if best is None:
        raise ValueError("no network runs the job: the plan has nothing to buy")
    usd = {answer.name: answer.numbers["network_usd"] for answer in plan.possible}
    told = f"Buy {best.name}: {units.counted(int(best.numbers['gpus']), 'GPUs')} of {plan.case.rack.name} train "
    told += plan.case.model.name
    if others:
        other = next((each for each in others if each.name == "rail-optimized"), max(others, key=lambda a: usd[a.name]))
        longer, less = best.numbers["days"] / other.numbers["days"] - 1, usd[other.name] - usd[best.name]
        speed = "as fast as" if abs(longer) < NO_DIFFERENCE else "slower than" if longer > 0 else "faster than"
        told += f" {speed} on {other.name}, for {units.show(abs(less), 'USD', 3)} {'less' if less > 0 else 'more'}"
    high, limit = plan.days_interval[1], plan.spec.limits.days
    sure = ". It should end within your limit, but may take" if limit and high > limit else ". It may take"
    told += f"{sure} up to {shown('days', high, 3)}" + ", within your limit" * bool(limit and high <= limit)
    within = [other for other in others if not missed_limits(other, plan.spec.limits)]
    alike = any(abs(usd[other.name] / usd[best.name] - 1) < NO_DIFFERENCE for other in within)
    advice = "No single price, power or rate changes that within its range"
    if not plan.flips.empty:
        advice = f"Check the {units.words(plan.flips.parameter.iloc[0])} first: it most easily makes another one best"
        advice += "; other networks cost the same, so ask for offers of them, too" * alike
    elif alike:
        advice = "Ask for offers of the other networks that cost the same, too"
    return f"{told}. {advice}."
