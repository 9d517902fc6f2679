"""One protocol per module: settings in, tidy tables out."""
