"""Fabrics drawn in layers, from networkx graphs. They import `catalog` and `plotting` alone."""

from suite.drawing.symbols import draw_fabric, fabric_figure
