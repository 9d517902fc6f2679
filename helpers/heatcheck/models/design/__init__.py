"""Networks of the model-design study: what changes when depth, width, normalization or biases change."""
