"""Times and periods as people write them -> numbers on one line: nanoseconds where times are dates, else as they are.

Dates are read as UTC where they name no zone. A column of numbers is a date where a period is given in words ("30D"):
seconds, milli-, micro- or nanoseconds since 1970, whichever gives years from 1971 to 2100; or days written 20240131.
Where no period is given, whole numbers that are Unix seconds or milliseconds of the years 1995 to 2100 are dates, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import IntArray
from ..errors import InputError

UNITS_OF_TIME = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
PLAINLY_UNIX = ("seconds", "milliseconds")  # what is recognised where nobody says that numbers are dates
FIRST_YEAR, PLAIN_YEAR, LAST_YEAR = 1, 25, 130  # after 1970
DAY = 86_400 * 10**9
WRITTEN = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")
A_YEAR = r"(?:^|[^0-9])[0-9]{4}(?:[^0-9]|$)"
# Steps that a calendar has, in nanoseconds, for periods that nobody named.
STEPS = [n * DAY // 24 for n in (1, 6, 12, 24, 48, 7 * 24, 14 * 24, 30 * 24, 60 * 24, 90 * 24, 180 * 24, 365 * 24)]


@dataclass(frozen=True, eq=False)
class Times:
    """When things happened: [num_events] on one line, sorted as they came."""

    values: Any  # int64 or float64; nanoseconds since 1970 where they are dates
    dated: bool
    unit: str = ""  # that numbers which are dates count since 1970

    @property
    def note(self) -> str:
        """How times were read, where that matters: of days alone no zone does."""
        if self.unit:
            return f"times are Unix {self.unit}, shown in UTC"
        return "times in UTC" if self.dated and self.grain != DAY else ""

    @property
    def grain(self) -> int | float:
        """The smallest step between these times: a day, a second, one, or none that is known."""
        if self.values.dtype.kind == "f":
            return 0
        if not self.dated:
            return 1
        return next((step for step in (DAY, 10**9) if not (self.values % step).any()), 1)


def read_times(column: Any, what: str, *, dated: bool | None) -> Times:
    """A column of dates, of text or of numbers, none of it missing; `dated` where numbers must be dates, None where
    they are if they look it."""
    series = pd.Series(column)  # its index says which row a cell came from
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if series.dtype.kind == "M" or isinstance(series.dtype, pd.DatetimeTZDtype):
        return Times(_nanoseconds(pd.to_datetime(series, utc=True), what), True)
    if series.dtype.kind == "m":
        raise InputError(f"Expected dates or numbers in {what} (got lengths of time).")
    numbers = pd.to_numeric(series, errors="coerce")
    if numbers.isna().all() or (numbers.isna().any() and series.dtype.kind == "O"):
        return Times(_read_dates(series.astype(str), what), True)
    bad = ~np.isfinite(numbers.to_numpy(dtype=np.float64))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"Expected a date or a number in every row of {what} (row {series.index[row] + 1} has "
            f"{str(series.iloc[row])[:40]!r}); mend that cell, or leave it empty: the row is then left out."
        )
    values = numbers.to_numpy()
    if len(values) and abs(values).max() >= 2.0**63:  # beyond, steps can be neither distinguished nor counted
        raise InputError(f"Expected times below 2^63 in {what} (got {values.min():g} to {values.max():g}).")
    values = values.astype(np.int64) if values.dtype.kind in "biu" else values.astype(np.float64)
    if values.dtype.kind == "f" and len(values) and (values == np.rint(values)).all() and abs(values).max() < 2**53:
        values = values.astype(np.int64)
    if dated is None:
        dated = values.dtype.kind == "i" and _unit_of(values, PLAIN_YEAR) in PLAINLY_UNIX
    return _from_epoch(values, what) if dated else Times(values, False)


def _read_dates(text: pd.Series[str], what: str) -> IntArray:
    """One way of writing a date that fits all rows, and no other that says another day."""
    found: dict[str, IntArray] = {}
    for form in WRITTEN:
        read = pd.to_datetime(text, format=form, utc=True, errors="coerce")
        if not read.isna().any():
            found[form] = _nanoseconds(read, what)
            if form == "ISO8601":
                return found[form]
    if len(found) > 1:
        raise InputError(
            f"Expected dates that can be read in one way in {what} (got {text.iloc[0][:40]!r}, day or month first); "
            "write them as 2024-01-31."
        )
    if found:
        return next(iter(found.values()))
    read = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    if read.isna().all() and text.str.contains(A_YEAR).all():  # pandas would take today's for what is not said
        try:
            return _nanoseconds(pd.to_datetime(text, utc=True), what)
        except (ValueError, OverflowError):
            pass
    row = int(np.argmax(read.isna()))
    raise InputError(
        f"Expected a date such as 2024-01-31 or a number in every row of {what} (row {text.index[row] + 1} has "
        f"{text.iloc[row][:40]!r}); mend that cell, or leave it empty: the row is then left out."
    )


def _nanoseconds(dates: Any, what: str) -> IntArray:
    index = pd.DatetimeIndex(dates)
    try:
        return np.asarray(index.as_unit("ns").asi8, dtype=np.int64)
    except pd.errors.OutOfBoundsDatetime as error:
        raise InputError(
            f"Expected dates from 1678 to 2261 in {what} (got {index.min().year} to {index.max().year})."
        ) from error


def _unit_of(values: Any, first: int) -> str:
    """The unit in which these count from 1970 to years after `first` and up to 2100; nothing where none does."""
    for unit, scale in UNITS_OF_TIME.items():
        years = np.array([values.min(), values.max()], dtype=np.float64) * scale / (365.25 * DAY)
        if years[0] >= first and years[1] <= LAST_YEAR:
            return unit
    return ""


def _from_epoch(values: Any, what: str) -> Times:
    """Numbers that must be dates."""
    if len(values) == 0:
        return Times(np.zeros(0, dtype=np.int64), True)
    if values.dtype.kind == "i" and values.min() >= 19000101 and values.max() <= 21001231:
        read = pd.to_datetime(pd.Series(values).astype(str), format="%Y%m%d", errors="coerce")
        if not read.isna().any():
            return Times(_nanoseconds(read, what), True)
    unit = _unit_of(values, FIRST_YEAR)
    if unit:
        return Times(np.asarray(np.rint(values * UNITS_OF_TIME[unit]), dtype=np.int64), True, unit)
    raise InputError(
        f"Expected dates in {what}, or seconds since 1970, for a period in words (got numbers from {values.min():g} to "
        f"{values.max():g}); give the period as a number, in the unit of these."
    )


def is_worded(period: Any) -> bool:
    """Whether a period is one of a calendar: "30D", a timedelta."""
    if period is None or isinstance(period, (int, float, np.integer, np.floating)):
        return False
    try:
        float(str(period))
    except ValueError:
        return True
    return False


def read_period(period: Any, times: Times, name: str) -> int | float:
    """A period in the unit of these times, above 0."""
    length: int | float = 0
    try:
        if is_worded(period):
            length = int(pd.Timedelta(period).as_unit("ns").value) if times.dated else 0
        elif not times.dated:
            number = float(period)
            length = int(number) if number.is_integer() else number
    except (ValueError, TypeError, OverflowError):
        length = 0
    if length <= 0 or not math.isfinite(length):
        in_words = 'in days or hours, such as "30D", "12h" or "4W" (weeks),'
        wanted = in_words if times.dated else "as a number, in the unit of the times,"
        raise InputError(f"Expected a period {wanted} as `{name}` (got {period!r}).")
    return length


def is_same_period(period: Any, other: Any) -> bool:
    """Whether two periods, in words or as numbers, are of one length."""
    if is_worded(period) and is_worded(other):
        try:
            return bool(pd.Timedelta(period) == pd.Timedelta(other))
        except ValueError:
            return str(period) == str(other)
    return not is_worded(period) and not is_worded(other) and float(period) == float(other)


def is_same_moment(moment: Any, other: Any) -> bool:
    """Whether two moments, as dates or as numbers, are one."""
    try:
        return float(moment) == float(other)
    except (ValueError, TypeError):
        pass
    try:
        return bool(pd.to_datetime(moment, utc=True) == pd.to_datetime(other, utc=True))
    except (ValueError, TypeError, OverflowError):
        return str(moment) == str(other)


def read_moment(moment: Any, times: Times, name: str) -> int | float:
    """A date or a number on the line of these times."""
    try:
        if times.dated:
            date = pd.Timestamp(moment)
            if pd.isna(date):
                raise InputError(f"Expected a date as `{name}` (got {moment!r}).")
            return int(_nanoseconds([date.tz_localize("UTC") if date.tzinfo is None else date], f"`{name}`")[0])
        return float(moment) if float(moment) != int(float(moment)) else int(float(moment))
    except (ValueError, TypeError, OverflowError) as error:
        wanted = "a date" if times.dated else "a number"
        raise InputError(f"Expected {wanted} as `{name}` (got {moment!r}).") from error


def choose_period(times: Times) -> int | float:
    """About a twelfth of the time that these cover, by a step that a calendar or the decimal system has."""
    span = float(times.values.max()) - float(times.values.min())
    if span / 12 <= 0:
        raise InputError(
            f"Expected events at two times or more, to decide how long a step is (got {len(times.values):,}, all at "
            f"{show_time(times.values[0].item(), times.dated)}); name the column of times, or give `every`, `window`."
        )
    if times.dated:
        return next((step for step in STEPS if step >= span / 15), STEPS[-1])
    power = 10.0 ** math.floor(math.log10(span / 12))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= span / 15)
    return max(round(step), 1) if times.values.dtype.kind == "i" else step


def first_start(times: Times, every: int | float) -> int | float:
    """Where the first window begins: with the first event, or with its day or hour where steps are as long."""
    first = times.values.min()
    if not times.dated:
        return float(first) if times.values.dtype.kind == "f" else int(first)
    grain = next((unit for unit in (DAY, DAY // 24) if every >= unit), 1)
    return int(first // grain * grain)


def show_time(moment: float, dated: bool) -> str:
    """A moment as text, no finer than it is."""
    if not dated:
        return f"{moment:.15g}" if isinstance(moment, float) else str(moment)
    date = pd.Timestamp(int(moment), unit="ns")
    return f"{date:%Y-%m-%d}" if int(moment) % DAY == 0 else f"{date:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def show_period(length: float, dated: bool) -> str:
    """A period as text."""
    if not dated:
        return f"{length:.15g}"
    if length % DAY == 0:
        return f"{int(length // DAY)}D"
    hours = length / (DAY // 24)
    return f"{int(hours)}h" if hours == int(hours) else f"{length / 1e9:.15g}s"
