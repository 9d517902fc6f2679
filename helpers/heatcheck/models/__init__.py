"""Classifiers by name, each with the preprocessing it was trained with."""
