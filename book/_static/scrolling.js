// Formulas that are wider than their box scroll, so the Tab key has to stop there: arrow keys scroll what has the
// focus. The theme does this for code and tables, before MathJax has drawn anything.
(async () => {
  await window.MathJax?.startup?.promise;
  const measure = (box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  // A box changes its size with the window, and when the part that it is in unfolds.
  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => measure(target)));
  document.querySelectorAll('mjx-container[display="true"], div.math').forEach((box) => observer.observe(box));
})();
