// Whether the page is complete, its formulas included.
if (document.readyState !== "complete") return false;
const startup = window.MathJax?.startup;
if (!startup?.promise) return !document.querySelector('script[src*="mathjax/"]');
if (!window.waiting) {
  window.waiting = true;
  startup.promise.then(() => { window.done = true; });
}
return Boolean(window.done);
