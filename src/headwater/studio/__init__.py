"""The Studio: the web page on which people look at a space and act on it."""
