"""Questions about CLEVR-like scenes: programs, texts, answers, and the masks that decide them."""
