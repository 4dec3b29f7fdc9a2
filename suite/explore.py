"""Widgets of the notebooks' last cells: sliders over parameters, and the picture that they change."""

import io
import os
from collections.abc import Callable, Sequence
from html import escape

from railcore.catalog.units import label, number
from suite import workspace

_OWN = "the platform's"  # a widget with the value None would show nothing as chosen


def panel(draw: Callable, warn: Callable | None = None, button: tuple[str, Callable] | None = None, **controls: tuple):
    """Sliders over `draw` and the picture that it gives; move one and the picture follows.

    What `draw` refuses with ValueError is shown as text, but raised where a published notebook's own defaults do not
    draw.

    Parameters
    ----------
    draw
        draw(**values) gives matplotlib Axes, a Figure, or HTML as a text.
    warn
        warn(**values) gives texts to show below the sliders.
    button
        Its words, and a slower draw(progress, **values), whose picture stays until a slider moves; progress(text) says
        how far it is.
    **controls
        (value, choices) for a slider over a list of numbers or a menu of texts, or (value, low, high, step) for a
        slider over a range. A value that its choices lack is added to them: before texts, in order among numbers. None,
        as value or choice, is shown first as "the platform's".

    Returns
    -------
    A widget.

    Raises
    ------
    ValueError
        For a control of another form.
    """
    import ipywidgets as widgets

    inputs = {name: _control(name, control, widgets) for name, control in controls.items()}
    image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%", align_self="flex-start"))
    message = widgets.HTML()

    def values() -> dict:
        return {name: _value(control) for name, control in inputs.items()}

    def update(change=None) -> None:
        try:
            drawn = draw(**values())
            if isinstance(drawn, str):
                message.value, image.layout.display = drawn, "none"
                return
            image.value = _png(drawn)
            message.value = "<br>".join(escape(text) for text in (warn(**values()) if warn else ()))
        except ValueError as error:
            if change is None and os.environ.get("RAILCORE_NOTEBOOK") and not workspace.parameterized():
                raise
            message.value = f"<b>{escape(str(error))}</b>"

    def tell(text: str) -> None:
        message.value = escape(text)

    def press(slower: Callable) -> None:
        tell("running")
        try:
            image.value = _png(slower(tell, **values()))
            message.value = ""
        except (ValueError, RuntimeError) as error:
            message.value = f"<b>{escape(str(error))}</b>"

    for control in inputs.values():
        control.observe(update, names="value")
    update()
    pushes = []
    if button:
        pushes = [widgets.Button(description=button[0], layout=widgets.Layout(width="25em"))]
        slower = button[1]
        pushes[0].on_click(lambda _: press(slower))
    return widgets.VBox([*inputs.values(), *pushes, message, image])


def _control(name: str, control: tuple, widgets):
    look = {"description": label(name), "continuous_update": False, "style": {"description_width": "15em"}}
    look["layout"] = widgets.Layout(width="40em")
    match control:
        case (value, [_, *_] as choices):
            listed = choices if value in choices else [value, *choices]
            listed_values, blank = [choice for choice in listed if choice is not None], [_OWN] * (None in listed)
            chosen = _OWN if value is None else value
            if all(isinstance(choice, str) for choice in listed_values):
                del look["continuous_update"]
                return widgets.Dropdown(value=chosen, options=[*blank, *listed_values], **look)
            if all(isinstance(choice, int | float) for choice in listed_values):
                options = [
                    *((text, text) for text in blank),
                    *((number(choice), choice) for choice in sorted(listed_values)),
                ]
                return widgets.SelectionSlider(value=chosen, options=options, **look)
        case (value, low, high, step) if low <= value <= high:
            kind = widgets.IntSlider if all(isinstance(x, int) for x in control) else widgets.FloatSlider
            return kind(value=value, min=low, max=high, step=step, **look)
    raise ValueError(f"control {name!r} is {control!r}: give (value, [choices]) or (value, low, high, step)")


def _value(control):
    """What a control stands at, None for the platform's own value."""
    return None if control.value == _OWN else control.value


def _png(drawn) -> bytes:
    import matplotlib.pyplot as plt

    axes = drawn.flat[0] if hasattr(drawn, "flat") else drawn[0] if isinstance(drawn, Sequence) else drawn
    figure = axes if hasattr(axes, "savefig") else axes.figure
    stream = io.BytesIO()
    how: dict = {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}}
    figure.savefig(stream, format="png", dpi=110, bbox_inches="tight", **how)  # no text is cut that a slider makes long
    plt.close(figure)
    return stream.getvalue()
