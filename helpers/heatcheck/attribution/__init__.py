"""Images to heatmaps: one family of methods per module, found by name in the registry.

``catalog.load_catalog()`` registers the built-in methods, ``registry.attribute(name, ...)`` runs one.
``runtime.plugins.load_plugins`` adds a user's own, which are ordinary functions::

    from heatcheck.attribution.registry import register

    @register("brightness", family="own")
    def brightness(model, images, targets, *, forward_args=(), generator=None, power: float = 1.0):
        return images.abs().mean(dim=1, keepdim=True) ** power
"""
