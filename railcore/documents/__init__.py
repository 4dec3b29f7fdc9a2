"""How each document is read, a folder for each; only notebooks import them, and general models know none of them."""
