"""Siting: where datacenters find the power for a demand, and what speaks for each choice of places.

Four words:

- A candidate is a point on the map with all plants within a radius of it.
- A place is a candidate that is chosen for a datacenter. Two chosen places share no plant.
  `SiteOptions` are candidates with their power by a rule.
- A split is k places that feed a demand together, and the power that each carries.
- A siting is a list of places with a name, to be compared with others.

The steps, and the order in which to read the modules:

1. `grid`: the plants, lines, substations and loads (`load_grid`); `eia` reads plants and hours of your own.
2. `candidates`: centres over the country, and the plants within the radius of each.
3. `supply`: what the plants of a candidate offer, and the rules that say how much of it a datacenter may have.
4. `areas`: which candidates are allowed: near a city, in some states, away from people (`Area`).
5. `split_problem`: candidates with their power by a rule (`SiteOptions`), and what a split must meet (`SplitTerms`).
6. `search`: the solver. The strongest k places by integer programming, the nearest k as cliques of a graph.
7. `split`: the best split (`best_split`), and all steps in one call (`find_places`).
8. `sitings`: sitings side by side: mix of fuels, what a fault takes, delay to people, carbon and cost.

Beside these steps: `nodes` groups plants so that each is in exactly one group, and `authorities` says how much power
balancing authorities have. `cities`, `distances` and `geometry` are their tools.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
