"""The suites: one test module a question."""
