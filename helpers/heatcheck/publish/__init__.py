"""Notebooks with checked parameters, executed and built into the book."""
