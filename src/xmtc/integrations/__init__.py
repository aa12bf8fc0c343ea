"""Doors to other libraries, one module for each; a module imports its library when it is used."""
