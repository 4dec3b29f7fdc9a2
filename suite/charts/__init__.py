"""Pictures of tables, by kind: DataFrames in, Axes or figures out."""
