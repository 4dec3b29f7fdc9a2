"""Models of datacenter networks for LLM training, and the notebooks that check published claims with them.

What a user needs first is here, loaded when it is used: `import railcore as rc`, then `rc.search(...)`.

Floors, from the ground up: `facts`; the core, `network`, `training`, `systems`; `engines`, which compute in detail;
`documents`. A module imports its own floor and the floors before it in this list, never a later one. Only `documents`
knows what a document says, and only notebooks import it. `workbench` stands aside: what the notebooks are made with.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
