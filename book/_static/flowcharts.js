// Draws the page's flowcharts, and again when the reader changes between light and dark.
(() => {
  const charts = [...document.querySelectorAll("pre.mermaid")].map((box) => ({ box, code: box.textContent }));
  let drawn = null;
  let queue = Promise.resolve();

  async function draw() {
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "default";
    if (theme === drawn) return;
    drawn = theme;
    mermaid.initialize({ startOnLoad: false, theme });
    for (const [number, { box, code }] of charts.entries()) {
      const { svg } = await mermaid.render(`flowchart-${number}`, code);
      box.innerHTML = svg;
      // On a narrow page a wide flowchart scrolls in its box before its text becomes too small to read.
      const drawing = box.querySelector("svg");
      drawing.style.minWidth = `${Math.min(drawing.viewBox.baseVal.width, 480)}px`;
      box.dataset.drawn = theme;
    }
  }

  // One drawing at a time: mermaid keeps its theme in a global.
  const redraw = () => { queue = queue.then(draw); };
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  redraw();
})();
