"""Superpixels: regions of similar colour that are hidden together. The code is shared with removal."""

from heatcheck.removal.segments import SlicOptions as SlicOptions
from heatcheck.removal.segments import relabel as relabel
from heatcheck.removal.segments import superpixel_means as superpixel_means
from heatcheck.removal.segments import superpixels as superpixels
