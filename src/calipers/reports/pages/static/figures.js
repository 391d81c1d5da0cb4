"use strict";
// Draws each <figure class="vega" data-spec="ID"> from the JSON in the script element of that id.
// A chart of one view has its width and height as numbers; it is made narrower where there is less room.
// Expressions are interpreted, never compiled, so that a page may forbid eval.
(() => {
  const NARROWEST = 280;
  const PANEL_AXES = 66;
  const OPTIONS = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true,
    logLevel: 1, // errors only
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };
  const widths = new WeakMap();

  function fitted(spec, room) {
    if (spec.concat) {
      const panel = Math.max(...spec.concat.map((each) => each.width || 200)) + PANEL_AXES;
      const most = spec.columns || spec.concat.length;
      const columns = Math.max(1, Math.min(most, Math.floor(room / panel)));
      const widest = Math.max(NARROWEST - PANEL_AXES, room - PANEL_AXES);
      const concat = spec.concat.map((each) => ({ ...each, width: Math.min(each.width || 200, widest) }));
      return { ...spec, columns, concat };
    }
    if (typeof spec.width !== "number") return spec;
    const width = Math.max(NARROWEST, Math.min(spec.width, room));
    return { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
  }

  async function draw(figure) {
    const canvas = figure.querySelector(".canvas");
    const source = document.getElementById(figure.dataset.spec);
    const room = Math.floor(canvas.clientWidth);
    if (!source || !room || widths.get(figure) === room) return;
    widths.set(figure, room);
    try {
      await vegaEmbed(canvas, fitted(JSON.parse(source.textContent), room), OPTIONS);
      canvas.querySelector("svg").setAttribute("aria-hidden", "true"); // the canvas has a label
    } catch (error) {
      canvas.textContent = `This figure could not be drawn: ${error.message}`;
    }
    figure.dataset.drawn = "true";
  }

  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) draw(entry.target.closest("figure.vega"));
  });

  function watch(root) {
    for (const figure of root.querySelectorAll("figure.vega[data-spec]")) {
      resized.observe(figure.querySelector(".canvas"));
    }
  }

  watch(document);
  // Parts of a page that htmx puts in later bring figures of their own.
  document.addEventListener("htmx:load", (event) => watch(event.detail.elt));
})();
