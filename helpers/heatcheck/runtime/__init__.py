"""Device, memory budget, seeds, results store and progress: what every run stands on."""
