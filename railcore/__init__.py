"""Models of datacenter networks for LLM training, and the notebooks that check published claims with them.

Floors, from the ground up: `facts`, `network`, `training`, `systems`, `documents`. A module imports its own floor and
the floors before it in this list, never a later one. Only `documents` knows what a document says, and only notebooks
import it. `workbench` stands aside: what the notebooks are made with. It imports `facts` alone.
"""

__version__ = "0.1.0"
