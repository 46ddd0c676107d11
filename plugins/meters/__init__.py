"""Meters: what runs beside a measurement, for power, clocks, temperature and memory."""
