"""From pytest-benchmark JSON to records, tables, pages and comparisons."""
