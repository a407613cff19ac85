"""The shapes of values: types of built-in kinds, structural schemas of custom ones, stored forms."""
