"""Fabrics drawn in layers, from networkx graphs. From railcore these import `facts` alone."""

from suite.drawing.symbols import draw_fabric, fabric_figure
