"""An engineer's fabric as tables: profiles that it is built to, ports, addresses and routes."""
