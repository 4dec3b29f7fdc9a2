"""What limits and wishes are about, and what a plan is ranked by: keys of the spec, and numbers of an answer."""

GOALS = {  # keys of limits and wishes: the number that each is about
    "days": "days",
    "power": "power_w",
    "purchase": "purchase_usd",
    "cost": "cost_usd",
    "carbon": "carbon_kg",
    "goodput": "goodput",
    "gpus": "gpus",
}
RANKS = {"cost": "cost_usd", "days": "days", "purchase": "purchase_usd", "power": "power_w"}
FOUND = {"gpus": "gpus", "cost": "cost_usd", "days": "days"}  # keys of [find]
