"""Models of datacenter networks for LLM training, and the notebooks that check published claims with them.

Floors, from the ground up: `facts`, `network`, `training`, `systems`, `workbench`. A module imports
its own floor and the floors before it in this list, never a later one.
"""
