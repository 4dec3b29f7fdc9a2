"""A datacenter in detail: its gradient exchange as a timeline, experts on racks, failures, what it trains and costs."""
