"""An older copy, further down sys.path: never imported."""

raise ImportError("the shadowed copy was imported")
