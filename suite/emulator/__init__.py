"""Tiny networks trained on simulated ranks that really send their arrays, every byte and every held array counted."""
