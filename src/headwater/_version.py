"""The one place that holds the version; the build and the command line read it from here."""

__version__ = "0.1.0.dev0"
