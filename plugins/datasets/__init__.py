"""Data sets: sources of images, split into those that calibrate and the measured ones."""
