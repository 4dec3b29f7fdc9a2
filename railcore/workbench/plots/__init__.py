"""Plots by subject, from DataFrames; from railcore they import `facts` and `workbench.plotting` alone."""
