"""Explains Jobs and queues to people: states, reasons, history, obstacles and what happens next.

All modules are pure. They take API objects and the current time, and return rows or sentences, which `cli` prints.
"""
