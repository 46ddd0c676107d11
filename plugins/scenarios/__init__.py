"""Scenarios: the questions that cases ask, and how they are answered."""
