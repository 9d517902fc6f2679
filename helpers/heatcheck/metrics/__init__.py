"""Heatmaps to numbers: pure functions of tensors."""
