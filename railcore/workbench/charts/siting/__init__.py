"""Plots of power siting: `ground` to draw maps on, `maps` of plants and places, `charts` of what was counted."""
