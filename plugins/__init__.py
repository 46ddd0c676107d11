"""The plugins that Benchrack brings, one file a plugin; registered through the public hooks."""
