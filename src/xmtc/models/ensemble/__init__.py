"""Several models as one: blends, stacked members, and `auto`."""
