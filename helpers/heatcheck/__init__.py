"""Do attribution heatmaps tell the truth? Benchmarks of image attribution methods."""
