"""Fabrics drawn in layers: networkx graphs in, Axes out. From railcore these modules import `facts` alone."""

from railcore.workbench.drawing.symbols import draw_fabric, fabric_figure
