"""Fabrics drawn in layers, from networkx graphs. From railcore these import `facts` alone."""

from railcore.workbench.drawing.symbols import draw_fabric, fabric_figure
