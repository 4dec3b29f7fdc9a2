"""Fabrics drawn in layers, from networkx graphs, and a map of states. From railcore these import `facts` alone."""

from railcore.workbench.drawing.symbols import draw_fabric, fabric_figure
