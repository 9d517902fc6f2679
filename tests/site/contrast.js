// The three texts that stand out least from what is behind them, and the lightness of the page.
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgb = (color) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return Array.from(canvas.getImageData(0, 0, 1, 1).data);
};
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const color = rgb(getComputedStyle(node).backgroundColor);
    if (color[3] > 250) return color;
  }
  return [255, 255, 255, 255];
};
const light = (color) => {
  const [r, g, b] = color.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const texts = 'p, li, td, th, h1, h2, h3, figcaption, caption, dt, code, a, summary';
return Array.from(document.querySelectorAll('article, .bd-sidebar-primary'))
  .flatMap((part) => Array.from(part.querySelectorAll(texts)))
  .filter((node) => node.checkVisibility() && node.innerText.trim())
  .map((node) => [ratio(light(rgb(getComputedStyle(node).color)), light(behind(node))), node.tagName, node.innerText.slice(0, 40)])
  .sort((a, b) => a[0] - b[0]).slice(0, 3).concat([[light(behind(document.querySelector('article'))), 'PAGE', '']]);
