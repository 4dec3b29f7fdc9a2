"""Siting: where a datacenter finds power. Four steps, and the modules in the order in which to read them:

1. The grid: plants, lines, substations, loads (`grid`); plants, hours and lines of your own (`plant_files`,
   `hour_files`, `own_lines`); what the hours lack and leave (`hours`); balancing authorities and the most that each has
   to spare (`authorities`), more where a load gives way in the hours of highest demand (`flexible_load`).
2. Available power at a point: the plants within a radius of it (`points`), what they have (`supply`), and how much of
   that a datacenter may have by a rule and by the bound of the authority (`rules`).
3. Places: where they may be (`areas`), and a list of those that have a demand alone (`places.find_places`).
4. A split: k places that feed a demand together (`split.find_split`), what they must meet (`split_terms`), and the
   solver (`split_search`).

`energy` has what energy costs and emits at a place. `eia` knows EIA's codes. `cities`, `distances` and `geometry` are
tools.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
