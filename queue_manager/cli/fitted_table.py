"""Lays out a table so that no line is longer than the terminal is wide, and no value is cut or torn.

Columns that do not fit beside the others continue on a further line of each row, indented, below headings that do the
same. Texts of several words wrap; only a word that is longer than a line is split.

    NAME   QUEUE            every row has as many lines as the headings,
      STATE  REASON         more where a text wraps, fewer where a line would be empty
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from queue_manager.cli.standard_streams import printable

GAP, INDENT = 2, 2  # characters between columns, and before the continued line of a row
MIN_WRAPPED_WIDTH = 20  # characters: minimum width of a column whose text wraps

Part = tuple[str, str]  # a text of one line, and its style


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its heading and the function that returns a row's text. `wide`: only in the format `-o wide`.

    `below`: on a further line, for the few rows that have a long text in it.
    """

    heading: str
    cell: Callable[[Any], str]
    style: Callable[[Any], str] | None = None
    right: bool = False
    wrap: bool = False
    wide: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a column: the offset (`start`) in its line, and its width, both in characters."""

    column: int
    start: int
    width: int


class FittedTable:
    """A table as a renderable of rich."""

    def __init__(self, columns: Sequence[TableColumn], rows: Sequence[object]) -> None:
        self._columns = columns
        self._rows = rows
        self._cells = [[_clean(column.heading), *(_clean(column.cell(row)) for row in rows)] for column in columns]
        self._longest = [max(cell_len(line) for text in texts for line in _lines(text)) for texts in self._cells]
        self._least = [self._least_width(column) for column in range(len(columns))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for parts in self._drawn(options.max_width):
            yield Text.assemble(*parts, no_wrap=True, overflow="ignore")

    def lines(self, width: int | None = None) -> Iterator[str]:
        """The lines without styles. `width` None: as wide as they are, each row on one line."""
        for parts in self._drawn(width):
            yield "".join(text for text, _ in parts).rstrip() + "\n"

    def lines_of(self, rows: Iterable[int]) -> Iterator[str]:
        """The lines of these rows alone, by number from 0, under the headings that `lines` printed: unwrapped."""
        (band,) = self._bands(None)
        for row in rows:
            for parts in self._band_of_row(row + 1, band):
                yield "".join(text for text, _ in parts).rstrip() + "\n"

    def _drawn(self, width: int | None) -> Iterator[list[Part]]:
        bands = self._bands(width)
        for number in range(len(self._rows) + 1):
            for band in bands:
                yield from self._band_of_row(number, band)

    def _band_of_row(self, number: int, band: Sequence[_Place]) -> Iterator[list[Part]]:
        """Yield the lines of a row in one band (a line of columns). Row 0: the headings. Empty bands yield nothing."""
        texts = [self._cells[place.column][number] for place in band]
        if band[0].start and not any(texts):
            return
        styles = [self._style(place.column, number) for place in band]
        wrapped = [_wrapped(text, place.width) for text, place in zip(texts, band, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            parts: list[Part] = []
            used = 0
            for text, style, place in zip(line, styles, band, strict=True):
                if not text:
                    continue
                space = place.width - cell_len(text)
                before = place.start - used + (space if self._columns[place.column].right else 0)
                parts += [(" " * before, ""), (text, style)]
                used += before + cell_len(text)
            yield parts

    def _style(self, column: int, number: int) -> str:
        style = self._columns[column].style
        if number == 0:
            return "bold"
        return style(self._rows[number - 1]) if style is not None else ""

    # --- widths ---

    def _bands(self, width: int | None) -> list[list[_Place]]:
        if width is None:
            return [_places(list(range(len(self._columns))), self._longest, 0)]
        return [
            _places(band, self._widths(band, width - indent), indent)
            for band, indent in zip(self._split(width), (0, *[INDENT] * len(self._columns)), strict=False)
        ]

    def _least_width(self, column: int) -> int:
        """The width in which no word of the column is split."""
        longest = self._longest[column]
        if not self._columns[column].wrap:
            return longest
        words = (cell_len(word) for text in self._cells[column] for word in text.split())
        return min(longest, max(MIN_WRAPPED_WIDTH, *words, 0))

    def _split(self, width: int) -> list[list[int]]:
        """Put each column beside the one before it, or, if there is no room, on a further line."""
        bands: list[list[int]] = [[]]
        used = 0
        for column in range(len(self._columns)):
            needed = self._least[column]
            if bands[-1] and (used + GAP + needed > width or self._columns[column].below):
                bands.append([])
                used = INDENT
            used += needed + (GAP if bands[-1] else 0)
            bands[-1].append(column)
        return bands

    def _widths(self, band: Sequence[int], width: int) -> list[int]:
        """Return the widths of the columns of one line.

        Each column gets its least width. The rest of the line is divided evenly among the columns whose text is longer;
        a column that needs less than its share leaves the difference to the others.
        """
        widths = {column: min(self._least[column], width) for column in band}
        spare = width - sum(widths.values()) - GAP * (len(band) - 1)
        wanting = sorted((self._longest[column] - widths[column], column) for column in band)
        for rank, (more, column) in enumerate(wanting):
            given = min(more, spare // (len(wanting) - rank))
            widths[column] += given
            spare -= given
        return [widths[column] for column in band]


def _places(band: Sequence[int], widths: Sequence[int], indent: int) -> list[_Place]:
    places, start = [], indent
    for column, width in zip(band, widths, strict=True):
        places.append(_Place(column, start, width))
        start += width + GAP
    return places


def _clean(text: str) -> str:
    return printable(text).expandtabs()


def _lines(text: str) -> list[str]:
    return text.splitlines() or [""]


def _wrapped(text: str, width: int) -> list[str]:
    return [part for line in _lines(text) for part in _wrapped_line(line, width)]


def _wrapped_line(line: str, width: int) -> list[str]:
    if cell_len(line) <= width:
        return [line]
    return [part.plain.rstrip() for part in Text(line).wrap(_WRAPPER, width, overflow="fold")]


_WRAPPER = Console(width=1000, color_system=None)
