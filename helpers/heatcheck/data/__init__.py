"""What a batch is: rendered scenes, photographs and image archives."""
