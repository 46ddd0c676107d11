"""Data sets: sources of pictures, split into those that calibrate and the measured ones."""
