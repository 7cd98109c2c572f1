"""Bounds of what the scripts beside it measure."""

import sys

missed = []


def _check(what, value, is_met, bound):
    print(f"{what}: {value:.2f}".rstrip("0").rstrip("."), f"({bound}{'' if is_met else ': MISSED'})")
    if not is_met:
        missed.append(what)


def at_most(what, value, limit):
    _check(what, value, value <= limit, f"must: at most {limit}")


def at_least(what, value, limit):
    _check(what, value, value >= limit, f"must: at least {limit}")


def none(what, found):
    """Nothing of this kind was found. A few of them are printed."""
    _check(what, len(found), not found, "must: 0")
    for one in found[:10]:
        print(f"  {one}")


def unmeasured(what, why):
    print(f"{what}: not measured: {why}")
    missed.append(what)


def end():
    """Ends the program: with 1 if a bound was missed or not measured."""
    sys.exit(bool(missed))
