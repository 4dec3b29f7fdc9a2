"""Maps of power siting: `basemap` to draw on, `symbols` of plants, lines and places, `power_maps` of both."""
