"""The data sets that are known by name, and files by their path."""

from ppadmm.datasets.named import NAMES, SOURCES, DataSource, data_folder, load

__all__ = ["NAMES", "SOURCES", "DataSource", "data_folder", "load"]
