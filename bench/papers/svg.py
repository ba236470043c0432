"""Line plots as SVG files, in panels with a common legend: nothing but the standard library is needed."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 250, 170  # of a panel's frame, in pixels
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 26, 40  # around it
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"]  # of Okabe and Ito, told apart by all


@dataclass
class Panel:
    title: str
    lines: dict  # name: points (x, y) in the order of x; y is None where there is nothing, and the line is broken there
    ceiling: float = math.inf  # points above it stand at the panel's top, as hollow triangles


def ticks(low, high, count=5):
    """Round numbers from at most `low` to at least `high`, about `count` of them."""
    if high <= low:
        high = low + (abs(low) or 1)
    rough = (high - low) / count
    step = 10 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if factor * step >= rough)
    first = math.floor(low / step + 1e-9)
    return [step * i for i in range(first, math.ceil(high / step - 1e-9) + 1)]


def text(x, y, words, anchor="middle", size=11, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#000", width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def runs(points):
    """The points without the gaps: lists of those that follow each other."""
    lists = [[]]
    for x, y in points:
        if y is None:
            lists.append([])
        else:
            lists[-1].append((x, y))
    return [points for points in lists if points]


def draw(panel, left, top, x_label, y_label, colours, y_from):
    points = [point for line_points in panel.lines.values() for point in line_points]
    heights = [min(y, panel.ceiling) for _, y in points if y is not None] or [0, 1]
    xs = ticks(min(x for x, _ in points), max(x for x, _ in points))
    ys = ticks(min(heights) if y_from is None else y_from, max(heights))

    def place(x, y):
        return left + WIDTH * (x - xs[0]) / (xs[-1] - xs[0]), top + HEIGHT * (ys[-1] - y) / (ys[-1] - ys[0])

    parts = [text(left + WIDTH / 2, top - 8, panel.title, size=12)]
    for x in xs:
        at, _ = place(x, ys[0])
        parts += [line(at, top, at, top + HEIGHT, "#e5e5e5"), text(at, top + HEIGHT + 14, f"{x:g}")]
    for y in ys:
        _, at = place(xs[0], y)
        parts += [line(left, at, left + WIDTH, at, "#e5e5e5"), text(left - 5, at + 4, f"{y:g}", "end")]
    parts.append(f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#000"/>')
    parts.append(text(left + WIDTH / 2, top + HEIGHT + 30, x_label))
    middle = top + HEIGHT / 2
    parts.append(text(left - 38, middle, y_label, extra=f' transform="rotate(-90 {left - 38} {middle:.1f})"'))
    for name, line_points in panel.lines.items():
        colour = colours[name]
        for run in runs(line_points):
            places = [place(x, min(y, panel.ceiling)) for x, y in run]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            for (x, y), (_, value) in zip(places, run):
                if value <= panel.ceiling:
                    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>')
                else:
                    parts.append(f'<path d="M{x - 4:.1f} {y + 5:.1f}h8l-4 -7z" fill="#fff" stroke="{colour}"/>')
    return parts


def plot(path, title, panels, x_label, y_label, columns=3, y_from=None):
    """Writes the panels, row by row, under a title and the names of their lines."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    columns = min(columns, len(panels))
    cell_width, cell_height, head = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, 34
    width = max(columns * cell_width, 30 + sum(8 * len(name) + 34 for name in names))
    legend_at = 14
    parts = [text(14, 20, title, "start", 14)]
    for name in names:
        parts += [line(legend_at, 40, legend_at + 20, 40, colours[name], 2), text(legend_at + 24, 44, name, "start")]
        legend_at += 8 * len(name) + 34
    head += 20
    for i, panel in enumerate(panels):
        left, top = (i % columns) * cell_width + LEFT, head + (i // columns) * cell_height + TOP
        parts += draw(panel, left, top, x_label, y_label, colours, y_from)
    height = head + math.ceil(len(panels) / columns) * cell_height
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">\n')
        file.write('<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")
