"""The figure of a roofline: what operators achieve by their intensity, under the roofs of the device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import SERIES, empty_figure, new_figure
from analyses.questions.scope_limits import ScopeLimits
from hta_graph.text.shorten import short_name, shorten_middle

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from hta_graph.roofline.operators_devices import Device

__all__ = ["figure", "roofs"]

POINTS = 200
"""So many operators are drawn, those with the most GPU time."""
LEAST_SHARE = 0.0005
"""What takes a smaller share of the GPU's time is not drawn: thousands of tiny ones would make the axes long."""
POINTS_NAMED = 9
"""So many names have a colour; all others are one."""
ROOFS = 4
"""So many types have a roof, those with the most GPU time."""
SMALLEST, LARGEST = 6, 44
"""How wide points are (pixels)."""
TITLE = "Roofline: what operators achieve under the limits of the device"


def roofs(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Return the corners of the roofs over the types that are computed in.

    Returns:
        device, roof (the type, or what bounds), intensity (FLOP/byte), tflops.
    """
    found = {corner: None for limits in looked if limits.device for corner in _roofs_of_scope(limits, limits.device)}
    return pd.DataFrame(list(found), columns=["device", "roof", "intensity", "tflops"])


def _roofs_of_scope(limits: ScopeLimits, device: Device) -> Iterable[tuple[str, str, float, float]]:
    """Yield the corners over what one scope computes in."""
    times: dict[float, dict[str, int]] = {}
    for ns, group in zip(limits.gpu_ns.tolist(), limits.groups.groups, strict=True):
        if group.demand is None or group.call is None:
            continue
        peak = device.peak_flops(group.demand.unit, group.demand.dtype, group.call.kernel)
        if peak and group.demand.flops:
            named = times.setdefault(peak, {})
            roof = f"{group.demand.dtype}, {group.demand.unit.value} units"
            named[roof] = named.get(roof, 0) + ns
    bandwidth = device.memory_bytes_per_s
    # Types with one peak have one roof, called after the one that takes most time.
    for peak in sorted(times, key=lambda one: -sum(times[one].values()))[:ROOFS]:
        roof = max(times[peak], key=lambda one: times[peak][one])
        ridge = peak / bandwidth if bandwidth else 0.0
        for intensity in (ridge / 1e4, ridge, 100 * ridge) if bandwidth else (0.01, 1e5):
            yield device.name, roof, intensity, min(peak, intensity * bandwidth if bandwidth else peak) / 1e12


def figure(found: Answer) -> Figure:
    """Draw operators as points, as large as their GPU time, under the roofs that their types have."""
    frame = _points(found.main)
    if frame.empty:
        return empty_figure(TITLE, "of no operator both arithmetic and traffic are known")
    made = new_figure(title=TITLE, x="FLOP per byte of the least traffic", y="TFLOP/s")
    _draw_roofs(made, found.drawn["roofs"], frame)
    names = list(dict.fromkeys(frame["operator"]))
    shown = names[:POINTS_NAMED] if len(names) > POINTS_NAMED + 1 else names
    for at, name in enumerate(shown):
        _draw_points(
            made, shorten_middle(short_name(name), 32), SERIES[at % len(SERIES)], frame[frame["operator"] == name]
        )
    others = frame[~frame["operator"].isin(shown)]
    if len(others):
        _draw_points(made, "other operators", SERIES[7], others)
    made.update_xaxes(type="log", exponentformat="power")
    made.update_yaxes(type="log", exponentformat="power")
    return made


def _points(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have a place in the figure, with their intensity."""
    drawn = frame[(frame["achieved_tflops"] > 0) & (frame["achieved_gbps"] > 0)]
    drawn = drawn[drawn["gpu_share"] >= min(LEAST_SHARE, float(drawn["gpu_share"].max()))].head(POINTS)
    return drawn.assign(intensity=1e3 * drawn["achieved_tflops"] / drawn["achieved_gbps"])


def _draw_roofs(made: Figure, corners: pd.DataFrame, points: pd.DataFrame) -> None:
    """Draw the roofs as far as there are points below them."""
    low, high = points["intensity"].min() / 3, points["intensity"].max() * 3
    for (device, roof), line in corners.groupby(["device", "roof"], sort=False):
        x = np.unique(np.clip(line["intensity"].to_numpy(), low, high))
        y = np.exp(np.interp(np.log(x), np.log(line["intensity"]), np.log(line["tflops"])))
        text = f"{device}: {roof}, {line['tflops'].max():,.4g} TFLOP/s<extra></extra>"
        made.add_scatter(
            x=x, y=y, mode="lines", name=f"limit: {roof}", line={"width": 1.5, "dash": "dot"}, hovertemplate=text
        )


def _draw_points(made: Figure, name: str, colour: str, own: pd.DataFrame) -> None:
    """Draw the rows of one name."""
    made.add_scatter(
        x=own["intensity"],
        y=own["achieved_tflops"],
        mode="markers",
        name=name,
        marker={"color": colour, "opacity": 0.75, "size": _sizes(own["gpu_share"])},
        customdata=_hover_texts(own),
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{y:,.3g} TFLOP/s, %{customdata[2]}<extra></extra>",
    )


def _sizes(share: pd.Series[Any]) -> Any:
    """Return how wide points are: their areas are as their times."""
    return np.clip(LARGEST * 2 * np.sqrt(share.to_numpy(np.float64)), SMALLEST, LARGEST)


def _hover_texts(own: pd.DataFrame) -> list[list[str]]:
    """Return what a point says when it is pointed at."""
    columns = zip(own["operator"], own["inputs"], own["peak_share"], own["gpu_ns"], strict=True)
    return [
        [shorten_middle(name, 80), shorten_middle(str(inputs), 100), _share_text(share, ns)]
        for name, inputs, share, ns in columns
    ]


def _share_text(share: float, gpu_ns: int) -> str:
    reach = "" if np.isnan(share) else f"{share:.0%} of the limit, "
    return f"{reach}{gpu_ns / 1e6:,.3f} ms"
