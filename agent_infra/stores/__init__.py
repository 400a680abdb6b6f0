"""Disk: one class or a few functions per kind of file. The text inside a file is `core`'s business."""
