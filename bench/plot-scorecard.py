#!/usr/bin/env python3
"""Draw a scorecard: plot-scorecard.py FILE.json >scorecard.svg

FILE.json is what `hakmem bench --scorecard --json=FILE.json` wrote; gnuplot
draws. One line a row of the scorecard, one mark an allocator: the ratio of its
CPU time, and of its memory, to the reference's.
"""
import json
import statistics
import subprocess
import sys

MARKS = {"hakmem": "pt 7 ps 0.9 lc rgb '#c0392b'",
         "glibc": "pt 2 ps 0.6 lc rgb '#7f8c8d'",
         "jemalloc": "pt 4 ps 0.6 lc rgb '#2471a3'",
         "tcmalloc": "pt 8 ps 0.6 lc rgb '#1e8449'"}
OTHERS = ["pt 6 ps 0.6 lc rgb '#8e44ad'", "pt 10 ps 0.6 lc rgb '#b9770e'",
          "pt 12 ps 0.6 lc rgb '#17a589'", "pt 14 ps 0.6 lc rgb '#34495e'"]


def ratios(card, metric):
    """{allocator: [(row, ratio of the medians)]}"""
    found = {}
    for at, row in enumerate(card["rows"].values()):
        middle = {}
        for side in row["sides"]:
            samples = side["samples"].get(metric)
            if samples and not side["failure"]:
                middle[side["name"]] = statistics.median(samples)
        reference = middle.pop(card["reference"], None)
        for name, value in middle.items():
            if reference:
                found.setdefault(name, []).append((at, value / reference))
    return found


def reach(data):
    """A range that leaves no mark out, and has room beside the last."""
    found = [ratio for marks in data.values() for _, ratio in marks]
    return min([0.5, *found]) / 1.3, max([2, *found]) * 1.3


def panel(card, metric, title, labels, out):
    rows = list(card["rows"])
    data = ratios(card, metric)
    out.append("set xrange [%.4f:%.4f]" % reach(data))
    # hakmem last: on top.
    sides = sorted(data, key=lambda side: side == "hakmem")
    spare = iter(OTHERS)
    out.append(f"set title '{title}, ratio to {card['reference']}'")
    names = ", ".join(f'"{name if labels else ""}" {-at}'
                      for at, name in enumerate(rows))
    out.append(f"set ytics ({names}) nomirror")
    out.append(f"set yrange [{-len(rows) + 0.3}:0.7]")
    out.append("plot " + ", ".join(
        f"'-' using 1:2 with points {MARKS.get(side) or next(spare, OTHERS[-1])}"
        f" title '{side}'" for side in sides))
    for side in sides:
        out += [f"{ratio:.4f} {-at}" for at, ratio in data[side]] + ["e"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            card = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"plot-scorecard: {sys.argv[1]}: {error}")
    if not isinstance(card, dict) or \
            card.get("format") != "hakmem-scorecard-1":
        sys.exit(f"plot-scorecard: {sys.argv[1]}: not a scorecard")
    out = ["set terminal svg size 1120,640 font 'sans-serif,12' "
           "background '#ffffff'",
           "set multiplot layout 1,2", "set logscale x 2",
           "set xtics (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16)",
           "set grid xtics ytics lc rgb '#dddddd'",
           "set arrow from 1, graph 0 to 1, graph 1 nohead lc rgb '#888888'",
           "unset key",
           "set lmargin at screen 0.205", "set rmargin at screen 0.535"]
    panel(card, "pattern", "CPU time", True, out)
    out += ["set lmargin at screen 0.56", "set rmargin at screen 0.89",
            "set key at screen 0.995, screen 0.88 right top vertical"]
    panel(card, "rss", "memory", False, out)
    subprocess.run(["gnuplot"], input="\n".join(out), text=True, check=True)


if __name__ == "__main__":
    main()
