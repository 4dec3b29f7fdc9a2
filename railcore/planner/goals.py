"""Numbers of an answer by keys of the spec: those of limits and wishes, of wishes.rank and of find."""

NO_DIFFERENCE = 0.01  # relative difference of two numbers that the models cannot tell from none

GOALS = {  # of limits and wishes
    "days": "days",
    "power": "power_w",
    "purchase": "purchase_usd",
    "cost": "cost_usd",
    "carbon": "carbon_kg",
    "goodput": "goodput",
    "gpus": "gpus",
}
RANKS = {"cost": "cost_usd", "days": "days", "purchase": "purchase_usd", "power": "power_w"}
FOUND = {"gpus": "gpus", "cost": "cost_usd", "days": "days"}  # of find
