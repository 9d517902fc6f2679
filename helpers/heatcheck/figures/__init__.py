"""Tables to figures, and figures and tables to files that a paper can use."""
