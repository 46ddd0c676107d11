"""Inference: throughput, latency and accuracy."""
